# Installs what people read: the documents with their examples, and what tools/faces has made: completions of shells,
# annotations for the Lua language server, and, where there is scdoc, manual pages.
install(FILES LICENSE README.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
set(share ${PROJECT_SOURCE_DIR}/share)
install(FILES ${share}/mortise.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME mortise)
install(FILES ${share}/_mortise DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${share}/mortise.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${share}/mortise.lua ${share}/mortise.luacheckrc DESTINATION ${CMAKE_INSTALL_DATADIR}/mortise/annotations)

find_program(SCDOC scdoc)
if(SCDOC)
  set(pages)
  foreach(page mortise.1 mortise-lua.3)
    set(file ${PROJECT_BINARY_DIR}/share/${page})
    add_custom_command(OUTPUT ${file} DEPENDS ${share}/${page}.scd VERBATIM
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/share
      COMMAND sh -c "\"$0\" <\"$1\" >\"$2\"" ${SCDOC} ${share}/${page}.scd ${file})
    list(APPEND pages ${file})
    string(REGEX REPLACE ".*\\." "" section ${page})
    install(FILES ${file} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  endforeach()
  add_custom_target(manual DEPENDS ${pages})
  add_dependencies(mortise_program manual) # who builds only the program can install all the same
endif()
