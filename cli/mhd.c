#include "mhd.h"

MT_LATE_NOTE(mhd_note, MT_LATE_LIBRARY("board", "recommended", MORTISE_MHD));

#define MHD_ROW(name) MT_LATE_ROW(mt_mhd, name)

const mt_mhd *mt_mhd_load(mortise_error *err) {
  static const mt_late_row rows[] = {MT_MHD_FUNCTIONS(MHD_ROW) {NULL, 0}};
  static mt_mhd functions;
  static bool loaded;
  char why[256];
  if (!loaded) loaded = mt_late_load(MORTISE_MHD, rows, &functions, why, sizeof why);
  if (loaded) return &functions;
  mt_error_set(err, MORTISE_UNAVAILABLE,
               "mortise board needs libmicrohttpd, which Debian has in libmicrohttpd12: %s", why);
  return NULL;
}
