/* Identifies this process, and tells whether another one on this machine is still alive. */
#ifndef MT_CLIENT_IDENTITY_H
#define MT_CLIENT_IDENTITY_H

#include <mortise/mortise.h>

typedef struct mt_identity {
  char host[256];
  char boot[40];  /* /proc/sys/kernel/random/boot_id; "" unknown */
  char pidns[32]; /* inode of the pid namespace; "" unknown */
  int64_t pid;
  int64_t start; /* of the process, in clock ticks since boot */
  char user[64];
  char *json; /* owned: all of it, with program, script and job */
} mt_identity;

/* Owned: mt_identity_free. */
mt_identity *mt_identity_new(const char *program, const char *script, const char *job,
                             mortise_error *err);
void mt_identity_free(mt_identity *id);
/* This process as the owner of a session: its JSON with others of these. Owned. */
char *mt_identity_owner(const mt_identity *id, const char *program, const char *script,
                        const char *job, mortise_error *err);

/* Did the owner described by this JSON run in the same host, boot and pid namespace as we do, and
 * is it gone: no such pid, or one started at another time, or one that has ended and that its parent has not
 * asked for? false if anything is unknown, since containers share host name and boot id. */
bool mt_identity_gone(const mt_identity *self, const char *owner_json);

#endif
