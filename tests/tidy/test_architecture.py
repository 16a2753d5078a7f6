"""ARCHITECTURE.md says what is true: each of its laws names the test that holds the code to it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
PACKAGE = ROOT / "src/pyromq"
SERVERS = ("broker", "namesrv", "net", "store")
#: Functions that make an object of each record that they are given.
DECODERS = {"decode_record", "iter_records", "read_record"}


def laws() -> list[str]:
    """Return the items of the list of laws."""
    section = re.search(r"^## Laws\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None
    return [" ".join(item.split()) for item in re.split(r"^- ", section[1], flags=re.MULTILINE)[1:]]


def test_there_are_laws() -> None:
    assert len(laws()) >= 8


@pytest.mark.parametrize("law", laws(), ids=lambda law: law[:40])
def test_a_law_names_the_tests_that_hold_the_code_to_it(law: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", law)

    assert named, "this law has no test"
    for path, name in named:
        assert (ROOT / path).exists(), path
        assert f"def {name}" in (ROOT / path).read_text(), f"{path}::{name}"


def test_the_modules_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`((?:src/|docs/|tests/)?[\w/]+\.(?:py|md))`", PAGE))
    rooms = [ROOT, ROOT / "src", PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir())]

    assert named
    assert not [name for name in named if not any((room / name).exists() for room in rooms)]


def test_the_store_waits_for_nobody() -> None:
    """A put is one piece of work between two turns of the loop, so no task sees half of it."""
    waiting = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((PACKAGE / "store").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await)
    ]

    assert not waiting


def test_a_pull_copies_records_and_does_not_decode_them() -> None:
    way = [
        *sorted((PACKAGE / "broker/delivery").glob("pull_*.py")),
        *sorted((PACKAGE / "broker/requests/handlers").glob("pull*.py")),
        *sorted((PACKAGE / "store").glob("*reading.py")),
    ]
    decoding = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in way
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id in DECODERS
    ]

    assert len(way) >= 3
    assert not decoding


def test_every_task_of_a_server_has_an_owner() -> None:
    """A task that nobody keeps may be collected while it runs, and its error is never seen."""
    started, lost = 0, []
    for server in SERVERS:
        for path in sorted((PACKAGE / server).rglob("*.py")):
            tree = ast.parse(path.read_text())
            started += sum(_starts_a_task(node) for node in ast.walk(tree))
            lost += [
                f"{path.relative_to(ROOT)}:{node.lineno}"
                for node in ast.walk(tree)
                if isinstance(node, ast.Expr) and _starts_a_task(node.value)
            ]

    assert started > 5
    assert not lost


def _starts_a_task(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("create_task", "ensure_future"))
