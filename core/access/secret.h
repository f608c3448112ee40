/* A secret that is fetched while the program runs: by a command, or from where Amazon's programs find theirs. A
 * thread fetches it, so that nothing else waits for that but who needs it. */
#ifndef MT_ACCESS_SECRET_H
#define MT_ACCESS_SECRET_H

#include "base/log.h"
#include "base/loop.h"

enum { MT_SECRET_MAX = 16384, MT_KEY_ID_MAX = 256 };

typedef struct mt_secret mt_secret;

/* Exactly one of the commands and `aws`. */
typedef struct mt_secret_config {
  const char *command; /* prints the secret as its first line; carried out by /bin/sh, for at most 30 s */
  bool aws;            /* the environment, a profile, a web identity, a container's or an instance's metadata */
  /* Called from the loop when a fetch has ended. */
  void (*changed)(void *ctx);
  void *ctx;
} mt_secret_config;

typedef struct mt_credentials {
  char id[MT_KEY_ID_MAX];      /* Amazon's alone */
  char secret[MT_SECRET_MAX];
  char session[MT_SECRET_MAX]; /* "": none */
  int64_t expires_ms;          /* of the wall clock; 0: it is not known to end */
  uint64_t round;              /* how many were fetched before */
} mt_credentials;

mt_secret *mt_secret_new(mt_loop *loop, const mt_secret_config *config, const mt_log *log, mortise_error *err);
void mt_secret_free(mt_secret *s); /* gives up a fetch; NULL is fine */

/* The secret, borrowed until the loop is stepped; it is renewed 5 minutes before its end. OK with *out NULL: it is
 * being fetched, `changed` tells the end. Else why it cannot be fetched. */
mortise_status mt_secret_get(mt_secret *s, const mt_credentials **out, mortise_error *err);
/* Why the last fetch failed, of whoever has waited for it; OK if it has not. */
const mortise_error *mt_secret_error(const mt_secret *s);
/* The server refuses the secret of this round. True if another is to be had: ask mt_secret_get again. */
bool mt_secret_refused(mt_secret *s, uint64_t round);

/* The region that Amazon's programs would use, "" if nothing says one. For `host` itself, if it names one. */
void mt_aws_region(const char *host, char *out, size_t size);

#endif
