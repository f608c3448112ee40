# Before 1.0 another minor version is another library.
set(MORTISE_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

# mortise_exports(TARGET PATTERN): all that a shared library shows, under a version of its own. What it calls itself is its
# own too (-Bsymbolic): so two versions of it live in one process.
function(mortise_exports target pattern)
  set(map ${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
  file(CONFIGURE OUTPUT ${map} @ONLY CONTENT
"MORTISE_@MORTISE_SOVERSION@ {
  global: @pattern@;
  local: *;
};
")
  target_link_options(${target} PRIVATE -Wl,--version-script=${map} -Wl,-Bsymbolic)
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
endfunction()
