"""List the rows of the specification that no test names.

Tests name rows with `@pytest.mark.row("NS-01", …)` (on a function, a class, or a module's `pytestmark`); the
rows stand in tests/rows.tsv. `--require NS SC PR-06..PR-16` makes uncovered rows of those areas a failure.
"""

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: What the project has promised so far; `make coverage-rows` fails when one of these has no test.
PROMISED = (
    "NS",
    "PR",
    "QS",
    "SM",
    "SC",
    "MM",
    "BA-01..BA-10",
    "AD-01..AD-09",
    "ST",
    "FL",
    "CL",
    "ID",
    "CO",
    "RB",
    "OF",
    "OR",
    "FI",
    "RT",
    "TX",
    "DE",
)


def known_rows() -> dict[str, str]:
    """Return the rows' ids with what each says."""
    rows = {}
    for line in (ROOT / "tests" / "rows.tsv").read_text().splitlines():
        if not line.startswith("#"):
            row, says, _ = line.split("\t")
            rows[row] = says
    return rows


def named_rows(path: Path) -> Iterator[tuple[str, int]]:
    """Yield each row that a test file names, with the line."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.row"):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value, node.lineno


def expand(words: tuple[str, ...], rows: dict[str, str]) -> set[str]:
    """Return the rows that the words mean: an area (`NS`), one row, or a span (`PR-06..PR-16`)."""
    wanted = set()
    for word in words:
        span = re.fullmatch(r"([A-Z]{2}-\d\d)\.\.([A-Z]{2}-\d\d)", word)
        if span:
            wanted |= {row for row in rows if span[1] <= row <= span[2]}
        else:
            wanted |= {row for row in rows if row == word or row.startswith(word + "-")}
    return wanted


def main() -> int:
    """Print what is covered and what is not; return 1 when a promised row has no test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--require", nargs="*", default=list(PROMISED), help="areas, rows or spans")
    rows = known_rows()
    required = expand(tuple(parser.parse_args().require), rows)
    tests: dict[str, list[str]] = defaultdict(list)
    unknown = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for row, line in named_rows(path):
            place = f"{path.relative_to(ROOT)}:{line}"
            (tests[row] if row in rows else unknown).append(place if row in rows else f"{row} at {place}")
    for row in rows:
        mark = "ok" if tests[row] else "MISSING" if row in required else "later"
        if mark != "ok":
            print(f"{mark:8} {row}  {rows[row][:90]}")
    covered = sum(bool(tests[row]) for row in rows)
    missing = sorted(row for row in required if not tests[row])
    kept = len(required) - len(missing)
    print(f"{covered} of {len(rows)} rows have a test; {kept} of the {len(required)} promised so far")
    for place in unknown:
        print(f"no such row: {place}")
    return 1 if missing or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
