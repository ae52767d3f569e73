"""Checks that includes in src/ point down the layers (HACKING.md) and that foreign headers stay in their folders.

usage: include_arrows.py ROOT | --self-test

Tests, benchmarks and what tests share (*_test.cc, *_bench.cc, test_*.h), beside the sources, may include any layer and llama.cpp's public headers:
they set a scene. Only they may include a test_*.h.
Private headers stay in src/plugin even so.
"""
import pathlib
import re
import sys

_CORE = ["base", "math", "codec", "kernel", "cache"]

# What a folder may include, itself included.
ALLOWED = {
    "base": {"base"},
    "math": {"base", "math"},
    "codec": {"base", "math", "codec"},
    "kernel": {"base", "math", "codec", "kernel"},
    "cache": set(_CORE),
    "api": {*_CORE, "api", "swivel"},
    "plugin": {*_CORE, "gguf", "calibrate", "plugin"},
    "gguf": {"base", "gguf"},
    "llama": {"base", "codec", "cache", "llama"},
    "calibrate": {*_CORE, "calibrate"},
    "eval": {*_CORE, "llama", "eval"},
    "tune": {*_CORE, "eval", "tune"},
    "cli": {*_CORE, "gguf", "llama", "calibrate", "eval", "tune", "cli"},
}

# Headers of ggml that are not installed: they may change with any commit of llama.cpp.
_PRIVATE = re.compile(r"ggml(-\w+)*-impl\.h$|ggml-(impl|quants|common|threading|feats)\.h$|ggml-backend-dl\.h$")
_PUBLIC = re.compile(r"^(llama|ggml|gguf)(-\w+)?\.h$")
PRIVATE_FOLDERS = {"plugin"}
PUBLIC_FOLDERS = {"plugin", "llama"}

_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def problems_of(path, text):
    """The violations in one file; `path` is relative to src/, with forward slashes."""
    folder = path.split("/")[0]
    found = []
    if folder not in ALLOWED:
        return [f"src/{path}: folder '{folder}' has no rule; add it to tests/house/include_arrows.py and HACKING.md"]
    is_test = re.search(r"_(test|bench)\.cc$|/test_\w+\.h$", path) is not None
    for number, line in enumerate(text.splitlines(), 1):
        match = _INCLUDE.match(line)
        if not match:
            continue
        quote, header = match.groups()
        where = f"src/{path}:{number}"
        layer = header.split("/")[0]
        if _PRIVATE.search(header):
            if folder not in PRIVATE_FOLDERS:
                found.append(f"{where}: {header} is private to ggml; only src/plugin may include it")
        elif _PUBLIC.match(header):
            if not is_test and folder not in PUBLIC_FOLDERS:
                found.append(f"{where}: {header}: only src/plugin and src/llama include llama.cpp's headers")
        elif "/" in header and layer in {*ALLOWED, "swivel"}:
            if quote == "<":
                found.append(f'{where}: headers of ours are included with quotes: "{header}"')
            if not is_test and re.search(r"/test_\w+\.h$", header):
                found.append(f"{where}: {header} is for tests")
            if not is_test and layer not in ALLOWED[folder]:
                found.append(f"{where}: {folder} may not include {header} (allowed: {', '.join(sorted(ALLOWED[folder]))})")
        elif quote == '"':
            found.append(f"{where}: \"{header}\" names no layer; write the path from src/")
    return found


def self_test():
    wrong = {
        "base/a.h": '#include "math/rotation.h"',
        "math/a.cc": '#include "codec/codec.h"',
        "codec/a.cc": '  #  include "kernel/kernels.h"',
        "kernel/x/a.h": '#include "cache/spec.h"',
        "cache/a.cc": '#include "plugin/host.h"',
        "kernel/c.cc": '#include "kernel/x/test_problem.h"',
        "kernel/x/testing.h": '#include "cache/spec.h"',
        "plugin/a.cc": '#include "eval/measure.h"',
        "gguf/a.cc": '#include "codec/codec.h"',
        "calibrate/a.cc": '#include "llama/capture.h"',
        "kernel/b.cc": '#include "calibrate/transform.h"',
        "llama/a.cc": '#include "kernel/kernels.h"',
        "eval/a.cc": '#include "gguf/header.h"',
        "tune/a.cc": '#include "llama/context.h"',
        "eval/b.cc": "#include <llama.h>",
        "cli/a.cc": '#include "plugin/host.h"',
        "codec/a_test.cc": '#include "ggml-impl.h"',
        "llama/b.cc": '#include "ggml-backend-impl.h"',
        "api/a.cc": '#include "ggml-quants.h"',
        "base/b.cc": '#include "half.h"',
        "base/c.cc": "#include <base/half.h>",
        "new/a.cc": "",
    }
    right = {
        "base/a.h": "#include <vector>",
        "codec/a_test.cc": '#include "cache/group_store.h"\n#include <ggml.h>',
        "kernel/x/test_problem.h": '#include "cache/group_store.h"',
        "plugin/a.cc": '#include "ggml-backend-impl.h"\n#include "cache/spec.h"\n#include "calibrate/transform.h"',
        "llama/a.cc": '#include <llama.h>\n#include "cache/spec.h"',
        "cli/a.cc": '#include <CLI/CLI.hpp>\n#include "eval/measure.h"\n#include <sys/mman.h>',
        "api/a.cc": '#include "swivel/swivel.h"',
    }
    bad = [path for path, text in wrong.items() if not problems_of(path, text)]
    bad += [path for path, text in right.items() if problems_of(path, text)]
    for path in bad:
        print(f"self-test: wrong verdict for {path}")
    return 1 if bad else 0


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1]) / "src"
    files = sorted(path for path in root.rglob("*") if path.suffix in {".h", ".cc", ".inc", ".cu"})
    found = [problem for path in files for problem in problems_of(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))]
    for problem in found:
        print(problem)
    print(f"{len(files)} files, {len(found)} problems")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
