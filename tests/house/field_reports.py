"""Checks that docs/field_reports.md has its 25 rows and that every test it names exists.

usage: field_reports.py ROOT | --self-test
"""
import pathlib
import re
import sys

_ROW = re.compile(r"^\| (\d+) \|(.*)\|\s*$")
_CPP = re.compile(r"^(?:TEST|TEST_F|TEST_P)\((\w+), (\w+)\)", re.MULTILINE)
_PYTHON = re.compile(r"^\s*def (test_\w+)\(", re.MULTILINE)
NUM_REPORTS = 25


def tests_of(sources):
    """The names of all tests in these texts."""
    found = set()
    for text in sources:
        found |= {f"{suite}.{name}" for suite, name in _CPP.findall(text)}
        found |= set(_PYTHON.findall(text))
    return found


def problems_of(page, tests):
    numbers, found = [], []
    for line in page.splitlines():
        row = _ROW.match(line)
        if not row:
            continue
        numbers.append(int(row.group(1)))
        cells = row.group(2).split("|")
        named = re.findall(r"`([^`]+)`", cells[2]) if len(cells) == 4 else []
        if len(cells) != 4 or not named or not cells[3].strip():
            found.append(f"report {row.group(1)}: needs fault, source, at least one test and a result")
        found += [f"report {row.group(1)}: there is no test {name}" for name in named if name not in tests]
    if numbers != list(range(1, NUM_REPORTS + 1)):
        found.append(f"rows are numbered {numbers}, expected 1 to {NUM_REPORTS}")
    return found


def self_test():
    tests = tests_of(["TEST_P(Thing, Holds) {", "    def test_thing(self):"])
    rows = [f"| {i} | fault | `a/b#1` | `Thing.Holds`, `test_thing` | held |" for i in range(1, NUM_REPORTS + 1)]
    bad = [] if not problems_of("\n".join(rows), tests) else ["a right page"]
    wrong = {
        "a missing row": rows[1:],
        "an unknown test": [rows[0].replace("Holds", "Hold")] + rows[1:],
        "no test": [rows[0].replace("`Thing.Holds`, `test_thing`", "by hand")] + rows[1:],
        "no result": [rows[0].replace("held", "")] + rows[1:],
    }
    bad += [name for name, lines in wrong.items() if not problems_of("\n".join(lines), tests)]
    for name in bad:
        print(f"self-test: wrong verdict for {name}")
    return 1 if bad else 0


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1])
    files = [path for folder in ("src", "tests") for path in sorted((root / folder).rglob("*_test.*")) if path.suffix in {".cc", ".py"}]
    tests = tests_of(path.read_text(encoding="utf-8") for path in files)
    found = problems_of((root / "docs" / "field_reports.md").read_text(encoding="utf-8"), tests)
    for problem in found:
        print(problem)
    print(f"{len(tests)} tests, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
