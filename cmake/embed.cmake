# mortise_embed(NAME [BASE FOLDER] FILES...): text files compiled in. Sets NAME to a C source that
# defines
#   const mt_embedded NAME[];        one row for each file, then one whose name is NULL
#   const size_t NAME_count;
# and writes embedded.h with the type into ${CMAKE_CURRENT_BINARY_DIR}/embedded, to be added to the
# target's include folders. FILES are below FOLDER (the current source folder where none is named);
# a row's name is the path given here. Made again whenever a file changes.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(MORTISE_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
  function(mortise_embed name)
    cmake_parse_arguments(arg "" "BASE" "" ${ARGN})
    if(NOT arg_BASE)
      set(arg_BASE ${CMAKE_CURRENT_SOURCE_DIR})
    endif()
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/embedded)
    file(CONFIGURE OUTPUT ${folder}/embedded.h @ONLY CONTENT
"/* Text files compiled in (cmake/embed.cmake). */
#ifndef MT_EMBEDDED_H
#define MT_EMBEDDED_H
#include <stddef.h>
typedef struct mt_embedded {
  const char *name, *text; /* name: the path given to CMake; text: terminated */
  size_t n;
} mt_embedded;
#endif
")
    set(sources ${arg_UNPARSED_ARGUMENTS})
    list(TRANSFORM sources PREPEND ${arg_BASE}/)
    string(REPLACE ";" "|" files "${arg_UNPARSED_ARGUMENTS}")
    add_custom_command(OUTPUT ${folder}/${name}.c
      COMMAND ${CMAKE_COMMAND} -DOUT=${folder}/${name}.c -DNAME=${name} -DBASE=${arg_BASE}
              "-DFILES=${files}" -P ${MORTISE_EMBED_SCRIPT}
      DEPENDS ${sources} ${MORTISE_EMBED_SCRIPT}
      COMMENT "Embedding ${name}" VERBATIM)
    set(${name} ${folder}/${name}.c PARENT_SCOPE)
  endfunction()
  return()
endif()

string(REPLACE "|" ";" FILES "${FILES}")
set(arrays "")
set(rows "")
set(count 0)
foreach(file ${FILES})
  file(READ ${BASE}/${file} hex HEX)
  # As signed values: the array is of char.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND arrays "static const char file_${count}[] = {${bytes}0};\n")
  string(APPEND rows "  {\"${file}\", file_${count}, sizeof file_${count} - 1},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE ${OUT} "/* Made by cmake/embed.cmake. */
#include \"embedded.h\"

${arrays}
extern const mt_embedded ${NAME}[];
extern const size_t ${NAME}_count;
const mt_embedded ${NAME}[] = {
${rows}  {NULL, NULL, 0},
};
const size_t ${NAME}_count = ${count};
")
