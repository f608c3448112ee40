/* Libraries that are loaded when they are first needed. */
#ifndef MT_LATE_H
#define MT_LATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function of one, and where its pointer goes. */
typedef struct mt_late_row {
  const char *name;
  size_t offset; /* in the struct of the library's functions */
} mt_late_row;

#define MT_LATE_MEMBER(name) __typeof__(name) *name;
#define MT_LATE_ROW(functions, name) {#name, offsetof(functions, name)},

/* By this ELF note, packagers' tools learn of them (uapi-group.org/specifications/specs/elf_dlopen_metadata). `libraries`:
 * a list of MT_LATE_LIBRARY with commas between them, as one string. */
#define MT_LATE_LIBRARY(feature, priority, soname) \
  "{\"feature\":\"" feature "\",\"priority\":\"" priority "\",\"soname\":[\"" soname "\"]}"
#define MT_LATE_NOTE(name, libraries) \
  static const struct name { \
    uint32_t owner_n, text_n, type; \
    char owner[4]; \
    _Alignas(4) char text[sizeof "[" libraries "]"]; \
  } name __attribute__((used, section(".note.dlopen"), aligned(4))) = { \
      4, sizeof "[" libraries "]", 0x407c0c0a, "FDO", "[" libraries "]"}

/* Fills in the functions of the rows, which end with a NULL name. false: `why` says why not. The library stays loaded. */
bool mt_late_load(const char *soname, const mt_late_row *rows, void *functions, char *why, size_t n);

#endif
