# mortise_embed(NAME [BASE FOLDER] FILES...): text files compiled in. Sets NAME to a C source that
# defines
#   const mt_embedded NAME[];        one row for each file, then one whose name is NULL
#   const size_t NAME_count;
# and writes embedded.h with the type into ${CMAKE_CURRENT_BINARY_DIR}/embedded, to be added to the
# target's include folders. FILES are below FOLDER (the current source folder where none is named);
# a row's name is the path given here. Made again whenever a file changes.
#
# mortise_embed_bytecode(NAME BASE FOLDER FILES...): the same Lua files once more, compiled by the Lua that is
# linked. Sets NAME_bytecode to a C source that defines
#   const mt_bytecode NAME_bytecode[]; one row for each file
#   const char NAME_lua[];             the lua_ident of that Lua: another release may not read them. Empty
#                                      where they could not be made (a cross build without an emulator)
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(MORTISE_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
  function(mortise_embed name)
    cmake_parse_arguments(arg "" "BASE" "" ${ARGN})
    if(NOT arg_BASE)
      set(arg_BASE ${CMAKE_CURRENT_SOURCE_DIR})
    endif()
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/embedded)
    file(CONFIGURE OUTPUT ${folder}/embedded.h @ONLY CONTENT
"/* Files compiled in (cmake/embed.cmake). */
#ifndef MT_EMBEDDED_H
#define MT_EMBEDDED_H
#include <stddef.h>
typedef struct mt_embedded {
  const char *name, *text; /* name: the path given to CMake; text: terminated */
  size_t n;
} mt_embedded;
typedef struct mt_bytecode {
  const unsigned char *p;
  size_t n;
} mt_bytecode;
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

  set(MORTISE_BYTECODE_SOURCE ${CMAKE_CURRENT_LIST_DIR}/bytecode.c)
  function(mortise_embed_bytecode name)
    cmake_parse_arguments(arg "" "BASE" "" ${ARGN})
    set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded/${name}_bytecode.c)
    set(${name}_bytecode ${out} PARENT_SCOPE)
    if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
      file(CONFIGURE OUTPUT ${out} @ONLY CONTENT
"#include \"embedded.h\"
extern const mt_bytecode @name@_bytecode[];
const mt_bytecode @name@_bytecode[] = {{NULL, 0}};
extern const char @name@_lua[];
const char @name@_lua[] = \"\";
")
      return()
    endif()
    add_executable(${name}_compiler ${MORTISE_BYTECODE_SOURCE})
    target_link_libraries(${name}_compiler PRIVATE PkgConfig::LUA)
    if(MORTISE_FUZZ) # its coverage needs a fuzz target to be linked with
      target_compile_options(${name}_compiler PRIVATE -fno-sanitize=fuzzer-no-link)
    endif()
    set(sources ${arg_UNPARSED_ARGUMENTS})
    list(TRANSFORM sources PREPEND ${arg_BASE}/)
    add_custom_command(OUTPUT ${out}
      COMMAND ${name}_compiler ${out} ${name} ${arg_BASE} ${arg_UNPARSED_ARGUMENTS}
      DEPENDS ${name}_compiler ${sources}
      COMMENT "Compiling ${name}" VERBATIM)
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
