#!/usr/bin/env bash
# The library for AArch64 on this machine: `cross.sh build` compiles it and its unit tests (build/aarch64), `cross.sh test` runs them in
# qemu. Status 77 (skipped): a tool is missing; `make test` installs them.
set -eu -o pipefail
cd "$(dirname "$0")/../.."

for tool in aarch64-linux-gnu-g++ qemu-aarch64-static; do
    if ! command -v "$tool" > /dev/null; then
        echo "skipped: $tool is not installed; get it by tools/setup g++-aarch64-linux-gnu qemu-user-static"
        exit 77
    fi
done
if [ ! -f /usr/src/googletest/CMakeLists.txt ]; then
    echo "skipped: the source of GoogleTest is not in /usr/src/googletest; get it by tools/setup googletest"
    exit 77
fi

case ${1-} in
    build)
        # ccache is not in the presets: naming a launcher that is missing fails the build.
        ccache=$(command -v ccache || true)
        cmake --preset aarch64 ${ccache:+-DCMAKE_CXX_COMPILER_LAUNCHER=ccache}
        cmake --build --preset aarch64
        ;;
    test) ctest --preset aarch64 ;;
    *) echo "usage: $0 build | test" >&2; exit 2 ;;
esac
