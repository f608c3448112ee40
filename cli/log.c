#include "log.h"

#include "base/buf.h"
#include "base/json.h"
#include "status.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 8192 };

static _Atomic int least = MORTISE_LOG_WARNING;
static _Atomic bool as_json;

static const char *const names[] = {
    [MORTISE_LOG_DEBUG] = "debug", [MORTISE_LOG_INFO] = "info", [MORTISE_LOG_WARNING] = "warning"};

int mt_log_from(int level) {
  return atomic_exchange(&least, level);
}

void mt_log_as_json(bool json) {
  as_json = json;
}

int mt_log_least(void) {
  return least;
}

/* "2026-01-31T23:59:59.123Z" */
static void time_text(char out[32]) {
  struct timespec now;
  struct tm at;
  char text[24];
  clock_gettime(CLOCK_REALTIME, &now);
  if (!gmtime_r(&now.tv_sec, &at)) memset(&at, 0, sizeof at);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &at);
  snprintf(out, 32, "%s.%03ldZ", text, now.tv_nsec / 1000000);
}

static void write_json(mortise_log_level level, const char *line, void (*write)(const char *)) {
  mt_buf b;
  char at[32];
  time_text(at);
  mt_buf_init(&b, LINE_MAX_BYTES);
  mt_buf_addf(&b, "{\"time\":\"%s\",\"level\":\"%s\",\"pid\":%ld,\"message\":", at, names[level], (long)getpid());
  mt_json_add_string(&b, mt_slice_of(line));
  mt_buf_adds(&b, "}");
  mt_buf_addc(&b, '\0');
  if (mt_buf_status(&b, "a line of the log", NULL) == MORTISE_OK) write(b.p);
  mt_buf_deinit(&b);
}

static _Atomic int file = -1;

bool mt_log_to_file(const char *name) {
  int made = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (made < 0) return false;
  int before = atomic_exchange(&file, made);
  if (before >= 0) close(before);
  return true;
}

/* One write for each line, so that processes may share the file. A line that cannot be written is lost. */
static void write_to_file(const char *line) {
  struct iovec parts[2] = {{(void *)(uintptr_t)line, strlen(line)}, {(void *)(uintptr_t)"\n", 1}};
  ssize_t n = writev(file, parts, 2);
  (void)n;
}

void mt_log_line(void *ctx, mortise_log_level level, const char *line) {
  (void)ctx;
  if (file >= 0) write_json(level, line, write_to_file);
  if ((int)level < least || level > MORTISE_LOG_WARNING) return;
  if (as_json)
    write_json(level, line, mt_status_line);
  else
    mt_status_say("%s: %s", names[level], line);
}
