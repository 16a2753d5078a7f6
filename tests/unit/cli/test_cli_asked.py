"""Only the command that is asked for is built."""

import pytest
import typer

from pyromq.cli.asked import asked_of
from pyromq.cli.main import app


def built(words: list[str]) -> dict[str, list[str]]:
    """Return the commands of each group that are built for these words; one that is no group has none."""
    program = typer.main.get_command(asked_of(app, words))
    return {name: sorted(getattr(each, "commands", ())) for name, each in program.commands.items()}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["version"], {"version": []}),
        (["topic", "list", "--json"], {"topic": ["list"]}),
        (["admin", "clusterList", "-h"], {"admin": ["clusterList"]}),
    ],
)
def test_a_command_that_is_named_is_built_alone(words: list[str], found: dict[str, list[str]]) -> None:
    assert built(words) == found


def test_a_group_is_whole_for_its_help_and_for_advice_about_a_wrong_name() -> None:
    whole = {"topic": built([])["topic"]}

    assert len(whole["topic"]) > 4
    assert built(["topic"]) == built(["topic", "--help"]) == built(["topic", "lst"]) == whole


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["topik", "list"]])
def test_the_program_is_whole_where_no_command_is_named(words: list[str]) -> None:
    assert built(words).keys() == built([]).keys()
