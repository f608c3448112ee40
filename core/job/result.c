#include "job/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MILLION = 1000000, PERCENT = MILLION / 100, DIGITS_MAX = 12 };

static bool take_digit(mt_slice text, size_t *at, uint64_t *digit) {
  if (*at == text.n || text.p[*at] < '0' || text.p[*at] > '9') return false;
  *digit = (uint64_t)(text.p[(*at)++] - '0');
  return true;
}

/* The digits after the point, which is at `*at`. */
static uint64_t take_fraction(mt_slice text, size_t *at) {
  uint64_t n = 0, digit, scale = PERCENT;
  for (++*at; take_digit(text, at, &digit); n += digit * scale) scale /= 10;
  return n;
}

mortise_status mt_bound_parse(mt_slice text, mt_bound *out, mortise_error *err) {
  size_t at = 0;
  uint64_t n = 0, digit;
  *out = (mt_bound){.limits = text.n > 0};
  while (at < DIGITS_MAX && take_digit(text, &at, &digit)) n = n * 10 + digit;
  bool good = at > 0 || !text.n;
  if (good && at == text.n) {
    out->documents = n;
    return MORTISE_OK;
  }
  out->in_a_million = n * PERCENT;
  if (good && text.p[at] == '.') out->in_a_million += take_fraction(text, &at);
  if (good && at + 1 == text.n && text.p[at] == '%' && out->in_a_million <= MILLION)
    return MORTISE_OK;
  return mt_error_set(err, MORTISE_INVALID_ARGUMENT,
                      "max_rejected is a number of documents, or like 0.5%% of those that match, "
                      "not %.*s",
                      (int)(text.n < 40 ? text.n : 40), text.p);
}

bool mt_bound_exceeded(const mt_bound *b, uint64_t aside, uint64_t matched) {
  if (!b->limits) return false;
  uint64_t whole = matched / MILLION * b->in_a_million;
  uint64_t most = b->documents + whole + matched % MILLION * b->in_a_million / MILLION;
  return aside > most;
}

void mt_result_reject(mt_change_result *r, mt_slice id, const char *type, const char *reason) {
  if (r->rejected < MT_REJECTS_SHOWN) {
    mt_reject *to = &r->rejects[r->rejected];
    snprintf(to->id, sizeof to->id, "%.*s",
             (int)(id.n < MT_REJECT_ID_MAX ? id.n : MT_REJECT_ID_MAX), id.p);
    snprintf(to->type, sizeof to->type, "%s", type);
    snprintf(to->reason, sizeof to->reason, "%.159s", reason);
  }
  r->rejected++;
}

mortise_status mt_result_check(const mt_change_result *r, bool curtailed, bool idle,
                               mortise_error *err) {
  if (r->rejected)
    return mt_error_set(err, MORTISE_REJECTED,
                        "%" PRIu64 " of %" PRIu64
                        " documents could not be changed%s, the first is %.100s: %s",
                        r->rejected, r->matched, curtailed ? " so far" : "", r->rejects[0].id,
                        r->rejects[0].reason);
  if (r->conflicts)
    return mt_error_set(err, MORTISE_CONFLICT,
                        "%" PRIu64 " of %" PRIu64 " documents were changed by someone else each time",
                        r->conflicts, r->matched);
  if (r->left)
    return mt_error_set(err, MORTISE_REJECTED,
                        "%" PRIu64 " documents still match after %" PRIu32 " passes%s", r->left,
                        r->passes, idle ? ", though nothing in them was to be changed" : "");
  return MORTISE_OK;
}

void mt_result_say_how_far(const mt_change_result *r, mortise_error *e) {
  char tail[160];
  int n = snprintf(tail, sizeof tail, "; %" PRIu64 " of %" PRIu64 " documents had been changed",
                   r->changed + r->deleted, r->matched);
  if (r->unknown)
    snprintf(tail + n, sizeof tail - (size_t)n, ", perhaps %" PRIu64 " more", r->unknown);
  size_t room = sizeof e->message - strlen(tail) - 1, at = strlen(e->message);
  if (at > room) at = room;
  memcpy(e->message + at, tail, strlen(tail) + 1);
}
