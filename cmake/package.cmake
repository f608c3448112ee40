# The files by which other builds find the libraries: pkg-config's, and CMake's, which asks pkg-config.
#
# Where the tree ends up is decided by `cmake --install --prefix`, and it may be moved afterwards: the
# files tell it from their own place. Only a folder that was given as an absolute path stays there,
# and then the prefix is the one of the installation.
include(CMakePackageConfigHelpers)

set(prefix "@CMAKE_INSTALL_PREFIX@") # filled in while installing
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(prefix "\${pcfiledir}/${up}")
endif()
foreach(folder LIBDIR INCLUDEDIR)
  string(TOLOWER ${folder} name)
  set(${name} "\${prefix}/${CMAKE_INSTALL_${folder}}")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
    set(${name} "${CMAKE_INSTALL_${folder}}")
  endif()
endforeach()

set(made ${PROJECT_BINARY_DIR}/package)
foreach(library mortise mortise-host)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${library}.pc.in ${made}/${library}.pc.in @ONLY)
  install(CODE "configure_file(\"${made}/${library}.pc.in\" \"${made}/${library}.pc\" @ONLY)")
  install(FILES ${made}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

configure_file(${CMAKE_CURRENT_LIST_DIR}/mortise-config.cmake.in ${made}/mortise-config.cmake @ONLY)
write_basic_package_version_file(${made}/mortise-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${made}/mortise-config.cmake ${made}/mortise-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mortise)
