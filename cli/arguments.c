#include "arguments.h"

#include "client/options.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void hide_argument(char *p, size_t n) {
  memset(p, '*', n);
}

/* Of a URL, all before the last '@', since a password may hold any of the separators; and all behind
 * a '?' or '#', a token by the habit of some. Both are found before either is hidden. */
static void hide_in_url(char *word) {
  char *sign = strstr(word, "://");
  if (!sign) return;
  char *start = sign + 3, *end = strrchr(start, '@'), *behind = strpbrk(start, "?#");
  if (end) hide_argument(start, (size_t)(end - start));
  if (behind) hide_argument(behind + 1, strlen(behind + 1));
}

/* What follows `--NAME` in the word, with the hyphens of an option's flag; NULL: another word. */
static char *skip_flag(char *word, const char *name) {
  if (strncmp(word, "--", 2)) return NULL;
  for (word += 2; *name; word++, name++)
    if (*word != (*name == '_' ? '-' : *name)) return NULL;
  return word;
}

/* Is it a secret option? Hides an attached value; returns true if the value is the next word. */
static bool hide_attached(char *word) {
  for (size_t i = 0; i < MT_CLIENT_OPTIONS; i++) {
    const mt_client_option *o = &mt_client_option_rows[i];
    if (o->kind != MT_KIND_SECRET) continue;
    char *rest = skip_flag(word, o->word ? o->word : o->name);
    if (!rest) continue;
    if (*rest == '=') hide_argument(rest + 1, strlen(rest + 1));
    if (!*rest) return true;
  }
  return false;
}

static void hide_secrets(int argc, char **argv) {
  bool is_value = false;
  for (int i = 1; i < argc; i++) {
    if (is_value) hide_argument(argv[i], strlen(argv[i]));
    hide_in_url(argv[i]);
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
