/* What the program logs, on standard error: one line each. */
#ifndef MT_LOG_H
#define MT_LOG_H

#include <mortise/mortise.h>

/* What is below `least` is dropped; above MORTISE_LOG_WARNING: everything. The one before. */
int mt_log_from(int least);
int mt_log_least(void);
/* Is each line an object {"time":"...Z","level":"...","pid":N,"message":"..."}? */
void mt_log_as_json(bool json);

/* Also writes every line, whatever `least` is, to this file, as JSON; appends. False, with errno: it cannot. */
bool mt_log_to_file(const char *name);

/* mortise_options.log. From any thread. */
void mt_log_line(void *ctx, mortise_log_level level, const char *line);

#endif
