# Every target of ours gets these. Warnings are errors for developers only (MORTISE_WERROR): another
# compiler, or other flags from outside, may warn of what nobody here has seen.
add_library(mortise_flags INTERFACE)
target_compile_definitions(mortise_flags INTERFACE _GNU_SOURCE)
target_compile_options(mortise_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
  -fno-strict-aliasing -fstack-protector-strong)
if(MORTISE_WERROR)
  target_compile_options(mortise_flags INTERFACE -Werror)
endif()
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
  # snprintf cuts names and messages to fit, on purpose; gcc notices only when it optimises.
  target_compile_options(mortise_flags INTERFACE -Wno-format-truncation)
endif()
if(MORTISE_SANITIZE)
  target_compile_options(mortise_flags INTERFACE -fsanitize=${MORTISE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(mortise_flags INTERFACE -fsanitize=${MORTISE_SANITIZE})
  if(MORTISE_SANITIZE MATCHES undefined)
    target_compile_options(mortise_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
else()
  # The checks need an optimised build; a level that the compiler or its flags set already stands.
  include(CheckCSourceCompiles)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  set(CMAKE_REQUIRED_FLAGS "${CMAKE_C_FLAGS_${type}}")
  unset(MORTISE_FORTIFY CACHE) # the flags may be others now
  check_c_source_compiles("
    #if defined _FORTIFY_SOURCE || !defined __OPTIMIZE__
    #error
    #endif
    int main(void) { return 0; }" MORTISE_FORTIFY)
  unset(CMAKE_REQUIRED_FLAGS)
  if(MORTISE_FORTIFY)
    target_compile_options(mortise_flags INTERFACE -D_FORTIFY_SOURCE=2)
  endif()
endif()
