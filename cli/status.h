/* Status for the user: on a terminal one line of standard error, updated in place and removed at
 * the end; for a file, separate lines. */
#ifndef MT_STATUS_H
#define MT_STATUS_H

#include <mortise/mortise.h>

typedef enum mt_progress {
  MT_PROGRESS_AUTO = 0, /* on if standard error is a terminal */
  MT_PROGRESS_PLAIN,    /* a line when something begins or changes, then at growing intervals */
  MT_PROGRESS_NONE,
} mt_progress;

void mt_status_mode(mt_progress mode);
/* Sets the callback that says whether a prompt is shown, whose line must not be overwritten. Call
 * it before showing anything. */
void mt_status_prompt(bool (*at_prompt)(void));

/* Shows the command's progress; NULL: it is over. A change of `key` is told at once. Copied. */
void mt_status_show(const char *text, const char *key);

/* mortise_options.notice. */
void mt_status_notice(void *ctx, const mortise_notice *notice);

/* Writes "mortise: " and a message above the status line. From any thread. */
void mt_status_say(const char *fmt, ...) MORTISE_PRINTF(1, 2);

/* Writes a line as it is, above the status line. From any thread. */
void mt_status_line(const char *line);

/* Removes the status line until it changes. */
void mt_status_clear(void);

/* Sets what is written if a second signal ends the program; NULL: nothing. Copied. */
void mt_status_last_words(const char *text);
/* Writes it. Safe in a signal handler. */
void mt_status_end(void);

#endif
