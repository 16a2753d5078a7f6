"""No command is forgotten: each that asks or changes a cluster is typed in a test.

Those that only look are in one table (tests/support/admin_looks.py), which is run on both. The others are
looked for in the tests that type commands.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from admin_looks import LOOKS
from command_walk import asks_a_cluster, commands

from pyromq.cli.admin.read_only_commands import READ_ONLY

TESTS = Path(__file__).parents[2]
#: Where commands are typed against servers of ours; `interop` has some that need a cluster of Apache's too.
TYPED_IN = ("functional", "system", "ha", "spark_long", "interop")


@cache
def typed() -> frozenset[tuple[str, ...]]:
    """Return each row of words that a test writes down: «topic», «create», …, beginning at any of them."""
    rows: set[tuple[str, ...]] = set()
    for folder in TYPED_IN:
        for path in (TESTS / folder).rglob("*.py"):
            for words in _rows(ast.parse(path.read_text())):
                rows |= {tuple(words[at : at + size]) for size in (1, 2) for at in range(len(words))}
    return frozenset(rows)


def _rows(tree: ast.AST) -> Iterator[list[str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            # A test may have a function for the first word: `dlq("list")`.
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            parts = [ast.Constant(name), *node.args]
        elif isinstance(node, ast.Tuple | ast.List):
            parts = node.elts
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.split()
            continue
        else:
            continue
        # What is no word, as an address, may stand between them.
        yield [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def test_commands_that_only_look_are_commands() -> None:
    assert set(commands()) >= READ_ONLY


def test_commands_that_only_look_are_in_the_table_for_both_servers() -> None:
    assert {look.command for look in LOOKS} == READ_ONLY


def test_the_table_is_run_on_both_servers() -> None:
    for path in ("functional/test_admin_looks.py", "interop/test_admin_on_apache.py"):
        assert 'parametrize("look", LOOKS' in (TESTS / path).read_text()


@pytest.mark.parametrize(
    "command",
    [words for words, command in commands().items() if asks_a_cluster(command) and words not in READ_ONLY],
)
def test_a_command_that_changes_something_is_typed_in_a_test(command: str) -> None:
    words = tuple(command.removeprefix("admin ").split())

    assert words in typed()


@pytest.mark.parametrize("command", READ_ONLY)
def test_a_command_that_only_looks_speaks_json(command: str) -> None:
    assert any("--json" in option.opts for option in commands()[command].params)
