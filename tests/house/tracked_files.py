"""Checks what git tracks: no path of anybody's machine, no host that is not public documentation, no downloaded binary, sane sizes.

usage: tracked_files.py ROOT | --self-test

Exits with 77 (skipped) where there is no git checkout, such as in a source archive.
"""
import pathlib
import re
import subprocess
import sys

# Split so that this file does not match itself.
_MACHINE = re.compile(r"(?<![\w.$}~/-])/(" + "|".join(["ro" + "ot", "ho" + "me", "wo" + "rk", "Us" + "ers", "m" + "nt"]) + r")(/|\b(?!\w))")
_TEMPORARY = re.compile(r"(?<![\w.$}~-])/t" + r"mp/(?!XXXX|\$)\w")
_HOST = re.compile(r"https?://(?:[^\s/@]*@)?([A-Za-z0-9.-]+)")
PUBLIC_HOSTS = {"arxiv.org", "github.com", "gcc.gnu.org", "keepachangelog.com", "semver.org", "json-schema.org", "www.apache.org", "localhost", "127.0.0.1"}
LARGEST_BYTES = 256 * 1024


def problems_of(path, data):
    """The violations in one tracked file."""
    found = []
    if len(data) > LARGEST_BYTES:
        found.append(f"{path}: {len(data)} bytes; nothing downloaded or generated is committed (limit {LARGEST_BYTES})")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return found + [f"{path}: not UTF-8 text"]
    if "\0" in text:
        return found + [f"{path}: a binary file"]
    for number, line in enumerate(text.splitlines(), 1):
        for match in list(_MACHINE.finditer(line)) + list(_TEMPORARY.finditer(line)):
            found.append(f"{path}:{number}: machine path {match.group(0)}")
        for host in _HOST.findall(line):
            if host.lower() not in PUBLIC_HOSTS:
                found.append(f"{path}:{number}: host {host}")
        if line != line.rstrip() and not path.endswith(".md"):
            found.append(f"{path}:{number}: space at the end of the line")
    return found


def self_test():
    wrong = ["x = '/ro" + "ot/.cache'", "see /wo" + "rk/main", "cd /ho" + "me/me", "/t" + "mp/build", "htt" + "p://registry.internal:80/simple", "a \n"]
    right = ["https://github.com/a/b", "src/root/x", "a /rooted tree", "$HOME/work/x", "work/main", "${TMPDIR:-/t" + "mp}/$x", "12 tokens/work", "ok\n"]
    bad = [text for text in wrong if not problems_of("a.py", text.encode())]
    bad += [text for text in right if problems_of("a.py", text.encode())]
    bad += [] if problems_of("a.bin", b"\xff\x00\xfe") else ["binary"]
    for text in bad:
        print(f"self-test: wrong verdict for {text!r}")
    return 1 if bad else 0


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1])
    try:
        listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        print("not a git checkout")
        return 77
    files = [name for name in listed.decode().split("\0") if name and (root / name).is_file()]
    found = [problem for name in files for problem in problems_of(name, (root / name).read_bytes())]
    for problem in found:
        print(problem)
    print(f"{len(files)} files, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
