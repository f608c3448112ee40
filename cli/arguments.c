#include "arguments.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void hide(char *p, size_t n) {
  memset(p, '*', n);
}

/* All before the last '@': a password may hold any of the separators. */
static void hide_userinfo(char *word) {
  char *sign = strstr(word, "://");
  char *end = sign ? strrchr(sign, '@') : NULL;
  if (end) hide(sign + 3, (size_t)(end - sign - 3));
}

/* A query or a fragment: a token, by the habit of some. No store's URL has one. */
static void hide_behind(char *word) {
  char *sign = strstr(word, "://");
  char *from = sign ? strpbrk(sign + 3, "?#") : NULL;
  if (from) hide(from + 1, strlen(from + 1));
}

/* Is it an option for a secret? Its value is hidden where it is attached; else it is the next word. */
static bool hide_attached(char *word) {
  static const char *const flags[] = {"--password", "--api-key", "--bearer"};
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    size_t n = strlen(flags[i]);
    if (strncmp(word, flags[i], n)) continue;
    if (word[n] == '=') hide(word + n + 1, strlen(word + n + 1));
    if (!word[n]) return true;
  }
  return false;
}

static void hide_secrets(int argc, char **argv) {
  bool is_value = false;
  for (int i = 1; i < argc; i++) {
    if (is_value) hide(argv[i], strlen(argv[i]));
    hide_userinfo(argv[i]);
    hide_behind(argv[i]);
    is_value = hide_attached(argv[i]);
  }
}

char **mt_arguments_take(int argc, char **argv) {
  size_t count = argc > 0 ? (size_t)argc : 0, bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += strlen(argv[i]) + 1;
  char **words = malloc((count + 1) * sizeof *words + bytes);
  if (!words) return NULL;
  char *at = (char *)(words + count + 1);
  for (size_t i = 0; i < count; i++) {
    words[i] = strcpy(at, argv[i]);
    at += strlen(at) + 1;
  }
  words[count] = NULL;
  hide_secrets(argc, argv);
  return words;
}
