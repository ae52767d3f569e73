# Helpers: which sources a folder holds, and the flags every target of ours shares.

# swivel_sources(<variable> <folder>...): the .cc files of src/<folder>, without tests and benchmarks.
function(swivel_sources variable)
  set(found)
  foreach(folder IN LISTS ARGN)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cc)
    list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")
    list(APPEND found ${sources})
  endforeach()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# swivel_setup(<target>): warnings, sanitizers, numerics.
function(swivel_setup target)
  # Contraction into FMA would make the scalar specification depend on the compiler; kernels ask for FMA by name.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wno-ignored-attributes -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-restrict)  # GCC bug 105651: false alarms inside std::string
  endif()
  if(SWIVEL_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(SWIVEL_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${SWIVEL_SANITIZE} -fno-omit-frame-pointer)
    if(SWIVEL_SANITIZE STREQUAL "undefined")
      target_compile_options(${target} PRIVATE -fno-sanitize-recover=all)
    endif()
    target_link_options(${target} PRIVATE -fsanitize=${SWIVEL_SANITIZE})
  endif()
endfunction()
