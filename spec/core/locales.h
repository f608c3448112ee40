/* For cmocka tests: the locales that tools/locales made for this build. One that cannot be had is a
 * failure: without it nothing is tested. */
#ifndef MORTISE_SPEC_LOCALES_H
#define MORTISE_SPEC_LOCALES_H

#include <locale.h>
#include <stdlib.h>

static const char *const test_locales[] = {"C", "de_DE.UTF-8", "de_DE.ISO-8859-1", "tr_TR.UTF-8",
                                           "tr_TR.ISO-8859-9"};
enum { TEST_LOCALES = sizeof test_locales / sizeof test_locales[0] };

static inline void use_locale(const char *name) {
  setenv("LOCPATH", MORTISE_TEST_LOCALES, 1);
  if (!setlocale(LC_ALL, name))
    fail_msg("there is no locale %s in %s (tools/locales, package locales)", name,
             MORTISE_TEST_LOCALES);
}

#endif
