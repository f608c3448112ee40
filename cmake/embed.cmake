# mortise_embed(OUT SYMBOL FOLDER FILES...): writes the C source OUT with `const mt_embedded SYMBOL[]`
# (core/base/embed.h), one row for each file, named by its path below FOLDER, again whenever a file
# changes. The script below does it at build time.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(MORTISE_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
  function(mortise_embed out symbol folder)
    string(REPLACE ";" "|" files "${ARGN}")
    add_custom_command(OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSYMBOL=${symbol} -DFOLDER=${folder} "-DFILES=${files}"
              -P ${MORTISE_EMBED_SCRIPT}
      DEPENDS ${ARGN} ${MORTISE_EMBED_SCRIPT}
      COMMENT "Embedding ${symbol}" VERBATIM)
  endfunction()
  return()
endif()

string(REPLACE "|" ";" FILES "${FILES}")
set(arrays "")
set(rows "")
set(i 0)
foreach(file ${FILES})
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n  " bytes "${bytes}")
  file(RELATIVE_PATH name ${FOLDER} ${file})
  string(APPEND arrays "static const unsigned char file_${i}[] = {\n  ${bytes}0};\n")
  string(APPEND rows "  {\"${name}\", file_${i}, sizeof file_${i} - 1},\n")
  math(EXPR i "${i} + 1")
endforeach()
file(WRITE ${OUT} "/* Made by cmake/embed.cmake. */
#include \"base/embed.h\"

${arrays}
extern const mt_embedded ${SYMBOL}[];
const mt_embedded ${SYMBOL}[] = {
${rows}  {NULL, NULL, 0},
};
")
