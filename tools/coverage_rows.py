"""List the rows of the specification that no test of `make test` names; fail if there is one.

Tests name rows with `@pytest.mark.row("NS-01", …)` (on a function, a class, or a module's `pytestmark`); the
rows stand in tests/rows.tsv. Only tests that `make test` runs count: the paths of the Makefile's targets
`check` and `test`, without tests marked `long`. `coverage_rows.py NS-01` lists a row's tests, the long ones
in brackets.

A row may have a fourth column, its kind, with the page that says why:

    absent docs/decisions/00NN-….md     the feature is not built, by decision; no test may claim the row
    explained docs/….md                 the row tells of Apache's inside; the page says what is visible here

The page must be there and must name the row.
"""

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
KINDS = ("absent", "explained")
#: A pytest call in the Makefile's targets, up to the next command.
_PYTEST = re.compile(r"-m pytest ([^&|;\n]*)")


@dataclass(frozen=True)
class Row:
    """A line of tests/rows.tsv."""

    says: str
    kind: str = ""
    page: str = ""


@dataclass(frozen=True)
class Naming:
    """A place where a test names a row."""

    row: str
    place: str
    is_long: bool


def known_rows(text: str) -> dict[str, Row]:
    """Return the rows by their ids."""
    rows = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            row, says, _, *more = line.split("\t")
            kind, _, page = (more[0] if more else "").partition(" ")
            rows[row] = Row(says, kind, page)
    return rows


def tested_paths(makefile: str) -> list[str]:
    """Return the files and folders below tests/ that `make test` gives to pytest."""
    recipes = re.findall(r"^(?:check|test):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    calls = [call for recipe in recipes for call in _PYTEST.findall(recipe.replace("\\\n", " "))]
    return sorted({word.rstrip(",)") for call in calls for word in call.split() if word.startswith("tests/")})


def namings(path: Path) -> Iterator[Naming]:
    """Yield each row that a test file names, with the line, and whether that test is marked `long`."""
    tree = ast.parse(path.read_text(), str(path))
    of_module = [mark for node in tree.body if _is_pytestmark(node) for mark in _marks(node)]
    yield from _named(path, of_module, is_long=_is_long(of_module))
    yield from _namings_below(path, tree, is_long=_is_long(of_module))


def _namings_below(path: Path, node: ast.AST, *, is_long: bool) -> Iterator[Naming]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            marks = [mark for decorator in child.decorator_list for mark in _marks(decorator)]
            yield from _named(path, marks, is_long=is_long or _is_long(marks))
            yield from _namings_below(path, child, is_long=is_long or _is_long(marks))
        elif isinstance(child, ast.Assign | ast.Expr) and not _is_pytestmark(child):
            # pytest.param(..., marks=pytest.mark.row(...)) in a list of cases
            yield from _named(path, list(_marks(child)), is_long=is_long)


def _is_pytestmark(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"


def _marks(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the `pytest.mark.…` expressions in a piece of code."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute | ast.Call) and re.match(r"pytest\.mark\.\w+", ast.unparse(inner)):
            yield inner


def _is_long(marks: list[ast.expr]) -> bool:
    return any(ast.unparse(mark) == "pytest.mark.long" for mark in marks)


def _named(path: Path, marks: list[ast.expr], *, is_long: bool) -> Iterator[Naming]:
    for mark in marks:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.row":
            for argument in mark.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield Naming(argument.value, f"{path.relative_to(ROOT)}:{mark.lineno}", is_long)


def _runs(path: Path, paths: list[str]) -> bool:
    name = str(path.relative_to(ROOT))
    return any(path.match(one) or name == one or name.startswith(f"{one}/") for one in paths)


def faults(row_id: str, row: Row, tests: list[str]) -> Iterator[str]:
    """Yield what is wrong with a row's coverage, in words."""
    if not row.kind:
        if not tests:
            yield f"no test that `make test` runs: {row_id}  {row.says[:90]}"
        return
    if row.kind not in KINDS:
        yield f"{row_id}: its kind is {row.kind!r}; known are {', '.join(KINDS)}"
        return
    page = ROOT / row.page
    if not page.is_file() or row_id not in page.read_text():
        yield f"{row_id} is {row.kind}, but {row.page or 'no page'} does not name it"
    if row.kind == "absent" and tests:
        yield f"{row_id} is absent, but a test claims it: {tests[0]}"


def main() -> int:
    """Print what is wrong, or the tests of some rows; return 1 when something is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="list the tests of these rows")
    asked = parser.parse_args().rows
    rows = known_rows((ROOT / "tests" / "rows.tsv").read_text())
    paths = tested_paths((ROOT / "Makefile").read_text())
    run: dict[str, list[str]] = defaultdict(list)
    left_out: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for naming in namings(path):
            counts = not naming.is_long and _runs(path, paths)
            (run if counts else left_out)[naming.row].append(naming.place)
    for row_id in asked:
        says = rows[row_id].says if row_id in rows else "no such row"
        print("\n  ".join([f"{row_id}  {says}", *run[row_id], *(f"[{place}]" for place in left_out[row_id])]))
    wrong = [fault for row_id, row in rows.items() for fault in faults(row_id, row, run[row_id])]
    for named in (run, left_out):
        wrong += [
            f"no such row: {row} at {place}" for row in named if row not in rows for place in named[row]
        ]
    for fault in wrong:
        print(fault)
    kinds = ", ".join(f"{sum(row.kind == kind for row in rows.values())} {kind}" for kind in KINDS)
    tested = sum(bool(run[row_id]) for row_id in rows)
    print(f"{tested} of {len(rows)} rows have a test that `make test` runs; {kinds}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
