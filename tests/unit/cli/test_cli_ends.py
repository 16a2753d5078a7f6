"""How the program ends when it is interrupted early, or nobody reads what it prints."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.cli.exit_status import MISUSED, NOT_THERE, status_of
from pyromq.cli.views.likely import no_topic, others
from pyromq.errors import MessageIllegal

PROGRAM = [sys.executable, "-m", "pyromq"]


def test_ctrl_c_while_modules_are_imported_leaves_no_trace(tmp_path: Path) -> None:
    """A module in the way presses Ctrl-C when it is imported, as a user does in the first moments."""
    (tmp_path / "typer.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nsignal.pause()\n"
    )

    ended = subprocess.run(
        [*PROGRAM, "topic", "list"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_while_a_servers_modules_are_imported_leaves_no_trace(tmp_path: Path) -> None:
    """A server imports most of its modules after its settings were read."""
    (tmp_path / "random.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nsignal.pause()\n"
    )

    ended = subprocess.run(
        [*PROGRAM, "broker", "--port", "0", "--data", str(tmp_path / "data")],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("arguments", [["version"], ["broker", "--print-settings"], ["broker", "--help"]])
def test_a_command_whose_output_nobody_reads_any_more_ends_well(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as unread:
        ended = subprocess.run(
            [*PROGRAM, *arguments], stdout=unread, stderr=subprocess.PIPE, timeout=60, check=False
        )

    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("name", ["two words", "ä", "x" * 128])
def test_a_name_that_no_topic_may_have_is_misuse_and_not_proposed(name: str) -> None:
    error = no_topic(name, "ns:9876", ["orders"])

    assert status_of(error) == MISUSED
    assert "topic create" not in str(error)


def test_a_message_that_breaks_a_rule_is_misuse() -> None:
    assert status_of(MessageIllegal(13, "the topic's name 'two words' may have only …")) == MISUSED


def test_a_name_is_not_told_as_its_own_likeness() -> None:
    assert "did you mean orders?" in others("topics", "ordes", ["ordes", "orders"])
    assert "did you mean" not in others("topics", "ops", ["ops"])


def test_a_topic_that_came_into_being_meanwhile_is_to_be_tried_again() -> None:
    error = no_topic("ops", "ns:9876", ["ops"])

    assert status_of(error) == NOT_THERE
    assert "ns:9876 knows it by now: try again" in str(error)
