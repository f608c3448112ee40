/* Which requests a server of this machine may answer: pages of other sites ask through the same browser, and a
 * name of theirs may be made to lead here. */
#ifndef MT_WEB_GUARD_H
#define MT_WEB_GUARD_H

#include <stdbool.h>

/* Is this what a browser sends for an address that a person has typed: an IP literal, `localhost`, or `name`,
 * which the server was told to listen on (or NULL)? The port may be any, as a tunnel's is another. A name that
 * others control could lead here. */
bool mt_web_host_ok(const char *host, const char *name);

/* Is it none, or that of the page itself? `host` is mt_web_host_ok. */
bool mt_web_origin_ok(const char *origin, const char *host);

/* By a browser's Sec-Fetch-Site and -Mode, each or NULL: does the page itself ask, or a person who opens it
 * (`is_page`)? */
bool mt_web_site_ok(const char *site, const char *mode, bool is_page);

/* Are they the same, in a time that tells nothing of where they differ? NULL is like nothing. */
bool mt_web_same_secret(const char *given, const char *known);

#endif
