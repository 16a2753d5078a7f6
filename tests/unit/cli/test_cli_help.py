"""What `--help` of the commands teaches. All are looked at in one go: to draw each takes half a minute."""

import re
import shlex
from collections.abc import Iterator

import pytest
from command_walk import commands
from typer.testing import CliRunner

from pyromq.cli.main import app
from pyromq.cli.messages.client_commands import SEND_TIMEOUT_S
from pyromq.config.settings import BrokerSettings

_EXAMPLE = re.compile(r"\[cyan\](.*?)\[/cyan\]")
_BETWEEN = ("|", "||", ";", "&&", ">")


def typed(line: str) -> Iterator[list[str]]:
    """Yield the words behind each `pyromq` of a line for a shell."""
    words: list[str] | None = None
    for word in [*shlex.split(line), ";"]:
        if word in _BETWEEN:
            if words is not None:
                yield words
            words = None
        elif words is not None:
            words.append(word)
        elif word == "pyromq":
            words = []


def test_a_flag_is_shown_as_one() -> None:
    shown = CliRunner().invoke(app, ["topic", "list", "--help"]).stdout

    assert re.search(r"--all +RocketMQ's own", shown)
    for words in ([], ["topic"], ["admin", "topicStatus"]):
        assert "<bool>" not in CliRunner().invoke(app, [*words, "--help"]).stdout


def test_a_message_of_produce_has_more_time_than_the_change_of_a_master_takes() -> None:
    shown = CliRunner().invoke(app, ["produce", "--help"]).stdout

    assert re.search(r"--timeout +SECONDS", shown)
    assert f"[default: {SEND_TIMEOUT_S}]" in shown
    # The lost master's lease runs out, then a replica starts as master and registers.
    assert 2 * BrokerSettings().failover_lease <= SEND_TIMEOUT_S * 1_000


def test_each_command_has_an_example_of_itself() -> None:
    found = commands()

    assert len(found) > 20
    for words, command in found.items():
        lines = _EXAMPLE.findall(command.epilog or "")
        assert lines, words
        assert all(f"pyromq {words}" in line for line in lines), lines


def test_examples_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROMQ_NEW_SECRET_KEY", "as an example has it")
    for command in commands().values():
        for line in _EXAMPLE.findall(command.epilog):
            for said in typed(line):
                words = next(one for one in commands() if said[: len(one.split())] == one.split())
                # What is wrong with an option raises.
                commands()[words].make_context(words, said[len(words.split()) :])
