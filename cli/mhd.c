#include "mhd.h"

#include <dlfcn.h>
#include <stdint.h>

/* By this ELF note, packagers' tools learn of it, as in libraries.c. */
#define MHD_NOTE "[{\"feature\":\"board\",\"priority\":\"recommended\",\"soname\":[\"" MORTISE_MHD "\"]}]"
static const struct mhd_note {
  uint32_t owner_n, text_n, type;
  char owner[4];
  _Alignas(4) char text[sizeof MHD_NOTE];
} mhd_note __attribute__((used, section(".note.dlopen"), aligned(4))) = {
    4, sizeof MHD_NOTE, 0x407c0c0a, "FDO", MHD_NOTE};

typedef struct mhd_row {
  const char *name;
  size_t offset; /* in mt_mhd */
} mhd_row;

#define MHD_ROW(name) {#name, offsetof(mt_mhd, name)},
static const mhd_row mhd_rows[] = {MT_MHD_FUNCTIONS(MHD_ROW) {NULL, 0}};

static void refuse_mhd(mortise_error *err) {
  const char *why = dlerror();
  mt_error_set(err, MORTISE_UNAVAILABLE,
               "mortise board needs libmicrohttpd, which Debian has in libmicrohttpd12: %s",
               why ? why : MORTISE_MHD);
}

const mt_mhd *mt_mhd_load(mortise_error *err) {
  static mt_mhd functions;
  static bool loaded;
  if (loaded) return &functions;
  void *library = dlopen(MORTISE_MHD, RTLD_NOW | RTLD_LOCAL);
  for (const mhd_row *row = mhd_rows; library && row->name; row++) {
    void *function = dlsym(library, row->name);
    *(void **)((char *)&functions + row->offset) = function;
    if (!function) library = NULL;
  }
  loaded = library != NULL;
  if (!loaded) refuse_mhd(err);
  return loaded ? &functions : NULL;
}
