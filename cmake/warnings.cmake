# Every target of ours gets these; warnings are errors on gcc and clang.
add_library(mortise_flags INTERFACE)
target_compile_definitions(mortise_flags INTERFACE _GNU_SOURCE)
target_compile_options(mortise_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
  -fno-strict-aliasing -fstack-protector-strong)
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
elseif(NOT CMAKE_BUILD_TYPE STREQUAL Debug)
  target_compile_options(mortise_flags INTERFACE -D_FORTIFY_SOURCE=2)
endif()
