/* What goes on, for whoever waits: one line of standard error that is kept up to date on a terminal,
 * and taken away when it is over; or lines, for a file. */
#ifndef MT_STATUS_H
#define MT_STATUS_H

#include <mortise/mortise.h>

typedef enum mt_progress {
  MT_PROGRESS_AUTO = 0, /* where standard error is a terminal */
  MT_PROGRESS_PLAIN,    /* a line when something begins, when it changes, and ever more seldom */
  MT_PROGRESS_NONE,
} mt_progress;

void mt_status_mode(mt_progress mode);
/* Says whether a prompt is shown, whose line is not to be written over; before anything is shown. */
void mt_status_prompt(bool (*at_prompt)(void));

/* How far the command is; NULL: that is over. Copied. */
void mt_status_show(const char *text);

/* mortise_options.notice. */
void mt_status_notice(void *ctx, const mortise_notice *notice);

/* "mortise: " and a line of its own, above the status line. From any thread. */
void mt_status_say(const char *fmt, ...) MORTISE_PRINTF(1, 2);

/* Takes the status line away, until it changes. */
void mt_status_clear(void);

/* What is written where a second signal ends the program; NULL: nothing. Copied. */
void mt_status_last_words(const char *text);
/* Writes it. Safe in a signal handler. */
void mt_status_end(void);

#endif
