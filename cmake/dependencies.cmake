# All from the distribution's packages, found by pkg-config. MORTISE_REQUIRES is what is inside the
# installed libraries, in pkg-config's words.
find_package(PkgConfig)
if(NOT PkgConfig_FOUND)
  message(FATAL_ERROR "pkg-config is missing; `tools/setup` installs all that is needed.")
endif()
find_package(Threads REQUIRED)
if(MORTISE_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  string(APPEND CMAKE_EXE_LINKER_FLAGS " -static")
  string(APPEND CMAKE_C_STANDARD_LIBRARIES " -lm -ldl") # what is inside of them needs these
endif()

# mortise_need(NAME "MODULE;..." SETUP PACKAGE): the first of the modules that is there, as
# PkgConfig::NAME. Where none is, the error names Debian's package and what tools/setup calls it.
macro(mortise_need name modules setup package)
  pkg_search_module(${name} QUIET IMPORTED_TARGET ${modules})
  if(NOT ${name}_FOUND)
    string(REPLACE ";" " or " wanted "${modules}")
    message(FATAL_ERROR "${wanted} is missing. On Debian it is in ${package}; "
      "`tools/setup ${setup}` installs all that is needed.")
  endif()
endmacro()

set(MORTISE_REQUIRES "")
macro(mortise_need_inside name module package)
  mortise_need(${name} "${module}" build ${package})
  list(APPEND MORTISE_REQUIRES "${module}")
endmacro()

if(MORTISE_SERVERS)
  mortise_need_inside(CURL "libcurl >= 7.87" libcurl4-openssl-dev)
  mortise_need_inside(ZLIB zlib zlib1g-dev)
endif()
if(MORTISE_EMBEDDED)
  mortise_need_inside(SQLITE "sqlite3 >= 3.35" libsqlite3-dev)
endif()
mortise_need_inside(CRYPTO "libcrypto >= 1.1" libssl-dev)
mortise_need_inside(ZSTD "libzstd >= 1.4" libzstd-dev)
mortise_need(LUA "lua5.4;lua-5.4;lua54" build liblua5.4-dev)
list(JOIN MORTISE_REQUIRES "\" \"" MORTISE_REQUIRES_CMAKE)
set(MORTISE_REQUIRES_CMAKE "\"${MORTISE_REQUIRES_CMAKE}\"")
list(JOIN MORTISE_REQUIRES ", " MORTISE_REQUIRES)
if(MORTISE_TESTS)
  mortise_need(CMOCKA cmocka test libcmocka-dev)
endif()
if(MORTISE_TESTS OR MORTISE_FUZZ)
  mortise_need(JANSSON jansson test libjansson-dev)
endif()
