# shellcheck shell=bash
# Shared by the scripts in tools/: where things are kept, and how they get there.
#
# Every script here prints its result (a path) on stdout and everything a person reads on stderr, so that
# `$(tools/model S)` works. Each is safe to run again: what is there and complete is left alone.

set -eu -o pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=$(realpath -m "${SWIVEL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/swivel}")
me=tools/$(basename "$0")
export repo cache

say() { printf '%s: %s\n' "$me" "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# lock NAME: holds until this script ends. Two runs on one machine (a test run and a developer, say) share one cache;
# the second waits, then finds the work done.
lock() {
    mkdir -p "$cache" || die "cannot create the cache folder $cache; set SWIVEL_CACHE to a folder that can be written"
    exec 9> "$cache/$1.lock"
    if ! flock --nonblock 9; then
        say "waiting for another run that is getting $1"
        flock 9
    fi
}

# scratch: a new folder in $scratch, gone when the script ends. It lies in the cache so that the final `mv` is a rename
# on one file system: readers see a whole file or none.
scratch=
scratch() {
    [ -z "$scratch" ] || return 0
    find "$cache" -maxdepth 1 -name 'tmp.*' -mmin +1440 -exec rm -rf {} + # of runs that were killed
    scratch=$(mktemp -d "$cache/tmp.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
}

# check_sha256 FILE SUM WHAT: ends the script when the file is not the one that was pinned.
check_sha256() {
    local found
    found=$(sha256sum < "$1")
    found=${found%% *}
    [ "$found" = "$2" ] || die "$3 has sha256 $found, expected $2; nothing was installed." \
        "Try again; if it stays, the package was changed upstream and must not be used"
}

# pip_metadata_stub DIR: a stand-in for the build systems of source packages.
# pip insists on asking a source package for its metadata, which means installing its build system (for llama.cpp: CMake
# from source, half an hour) only to learn the name and version that the PKG-INFO inside already states. With build
# isolation off pip takes the build system from PYTHONPATH: this one, which hands PKG-INFO over.
# It also means that no code of the package runs before its checksum was looked at.
pip_metadata_stub() {
    mkdir -p "$1/setuptools" "$1/scikit_build_core"
    touch "$1/setuptools/__init__.py" "$1/scikit_build_core/__init__.py"
    cp "$repo/tools/pip_metadata.py" "$1/setuptools/build_meta.py"
    cp "$repo/tools/pip_metadata.py" "$1/scikit_build_core/build.py"
}

# pip_download KIND PACKAGE==VERSION DIR: KIND is wheel or sdist; puts that one file into DIR, through pip as it is
# configured here (index, proxy, certificates). Without pip's own cache, which would keep gigabytes a second time.
pip_download() {
    local kind=$1 package=$2 into=$3 log=$3.log
    local options=(--no-deps --no-cache-dir --disable-pip-version-check --progress-bar off --retries 2 --dest "$into")
    if [ "$kind" = sdist ]; then
        pip_metadata_stub "$into.stub"
        options+=(--no-binary "${package%%==*}" --no-build-isolation --use-pep517)
    else
        options+=(--only-binary :all:)
    fi
    python3 -c 'import pip' 2> /dev/null || die "python3 ($(command -v python3 || echo none)) has no pip, which is needed to" \
        "get $package; run tools/setup"
    say "getting $package from the package index"
    mkdir -p "$into"
    if ! PYTHONPATH="$into.stub${PYTHONPATH:+:$PYTHONPATH}" python3 -m pip download "${options[@]}" "$package" > "$log" 2>&1
    then
        # When the index does not answer, pip ends with "no matching distribution found", which misleads.
        local cause
        cause=$(sed -n "s/.*after connection broken by '\(.*\)': .*/\1/p" "$log" | sed -n '$ { s/.* object at [^>]*>: //; s/[^a-z]*$//; p }')
        [ -z "$cause" ] || die "cannot reach the package index: $cause. What is missing: $package. Connect this machine to" \
            "the network, or point pip at a mirror (PIP_INDEX_URL or pip.conf), and run the same command again;" \
            "what is already in $cache needs no network"
        tail -n 5 "$log" >&2
        die "pip could not get $package (its last words are above)"
    fi
}

# only_file DIR: the one file in DIR (what pip_download brought; its name depends on pip's idea of the platform).
only_file() {
    local files=("$1"/*)
    if [ ${#files[@]} != 1 ] || [ ! -f "${files[0]}" ]; then die "expected one file in $1, found: ${files[*]}"; fi
    printf '%s\n' "${files[0]}"
}
