/* The options of a client as rows, in the order of options.def, which describes them. */
#ifndef MT_CLIENT_OPTIONS_H
#define MT_CLIENT_OPTIONS_H

#include "base/number.h"

#include <mortise/lock.h>

typedef enum mt_option_kind {
  MT_KIND_TEXT,
  MT_KIND_FILE,
  MT_KIND_SECRET,
  MT_KIND_TIME,
  MT_KIND_SIZE,
  MT_KIND_FLAG
} mt_option_kind;

enum {
#define OPTION(kind, member, ...) MT_AT_##member,
#include "client/options.def"
#undef OPTION
  MT_CLIENT_OPTIONS
};

typedef struct mt_client_option {
  const char *member, *name, *word, *help; /* `word` NULL: the name */
  mt_option_kind kind;
  size_t offset; /* of the member */
  int64_t least, most;
} mt_client_option;

extern const mt_client_option mt_client_option_rows[MT_CLIENT_OPTIONS];

/* The message of INVALID_ARGUMENT begins with the member's name, so that a caller can replace it by
 * the option's source. */
mortise_status mt_client_options_check(const mortise_options *o, mortise_error *err);

/* Structs that a program of another version has in another length. Giving one: what it does not have is not written.
 * Taking one: it is laid over our defaults, which are in `out`; INVALID_ARGUMENT if it is NULL, or its size is none that this
 * library knows: less than `least`, where its first version ended. */
void mt_struct_give(void *out, const void *ours, size_t size, size_t our_size);
mortise_status mt_struct_take(void *out, size_t our_size, const void *given, size_t least, const char *what,
                              mortise_error *err);
mortise_status mt_client_options_take(mortise_options *out, const mortise_options *given, mortise_error *err);
mortise_status mt_client_request_take(mortise_lock_request *out, const mortise_lock_request *given,
                                      mortise_error *err);

/* Copies all strings; NULL becomes the default. The caller must deinit `to`, even after a
 * failure. */
bool mt_client_options_copy(mortise_options *to, const mortise_options *from);
void mt_client_options_deinit(mortise_options *o); /* wipes them first */

/* Do they open the same store, in the same way? Of copies: there NULL has become the default. */
bool mt_client_options_same_store(const mortise_options *a, const mortise_options *b);

/* The default margin of a lease. */
int64_t mt_margin_default(int64_t lease_ms);

/* Renders a value in the row's kind, and its range as in "a time from 1s to 1h". */
enum { MT_OPTION_RANGE = 96 };
void mt_client_option_show(const mt_client_option *row, int64_t value, char out[MT_NUMBER_TEXT]);
void mt_client_option_range(const mt_client_option *row, char out[MT_OPTION_RANGE]);

#endif
