/* Shared by the files of this folder: fetching, on a thread of its own. */
#ifndef MT_ACCESS_FETCH_H
#define MT_ACCESS_FETCH_H

#include "access/secret.h"
#include "base/buf.h"

#include <stdatomic.h>

/* Each wait looks at `stop` at least once a second. */
typedef struct mt_fetch {
  const atomic_bool *stop;
  const char *command;
  const char *const *env; /* the values of mt_aws_names; NULL: not set */
} mt_fetch;

/* Those of the environment that matter to Amazon's credentials, NULL at the end. */
extern const char *const mt_aws_names[];
/* The value of one; NULL: not set, or empty. */
const char *mt_aws_env(size_t i);

/* Is it of printable ASCII, without spaces and the bytes of `but`, so that it may stand in a header? */
bool mt_is_plain(mt_slice text, const char *but);

/* What the command prints, at most 64 KiB. UNAVAILABLE names the command and says how it ended. */
mortise_status mt_command_output(const mt_fetch *f, const char *command, mt_buf *out, mortise_error *err);

mortise_status mt_fetch_command(const mt_fetch *f, mt_credentials *out, mortise_error *err);
mortise_status mt_fetch_aws(const mt_fetch *f, mt_credentials *out, mortise_error *err);

#endif
