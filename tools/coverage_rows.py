"""List the rows of the specification that no test names; fail if there is one, or a test names none that is.

Tests name rows with `@pytest.mark.row("NS-01", …)` (on a function, a class, or a module's `pytestmark`); the
rows stand in tests/rows.tsv. `coverage_rows.py NS-01` lists a row's tests.
"""

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent


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


def main() -> int:
    """Print which rows have no test, or the tests of some; return 1 when one has none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="list the tests of these rows")
    asked = parser.parse_args().rows
    rows = known_rows()
    tests: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for row, line in named_rows(path):
            tests[row].append(f"{path.relative_to(ROOT)}:{line}")
    for row in asked:
        print("\n  ".join([f"{row}  {rows.get(row, 'no such row')}", *tests[row]]))
    missing = [row for row in rows if not tests[row]]
    unknown = [f"{row} at {place}" for row, places in tests.items() if row not in rows for place in places]
    for row in missing:
        print(f"no test: {row}  {rows[row][:90]}")
    for place in unknown:
        print(f"no such row: {place}")
    print(f"{len(rows) - len(missing)} of {len(rows)} rows have a test")
    return 1 if missing or unknown else 0


if __name__ == "__main__":
    sys.exit(main())
