# Toolchain: AArch64 Linux by Debian's cross compiler, tests run in qemu's user mode. The preset `aarch64` uses it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)  # GoogleTest declares C
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# Libraries and packages of the host are of the wrong kind; its programs (Python, ccache) are not.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# A real core that has what the neon kernels ask for and nothing newer (SVE, I8MM, BF16): `-cpu max` would run those too, and hide it
# if they were used.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu -cpu neoverse-n1)
