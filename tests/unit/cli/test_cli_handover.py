"""A server's process has the server in it, and not the command line that started it."""

import subprocess
import sys

from pyromq.cli.handover import _command

ARGUMENTS = ["broker", "--port", "0"]


def test_a_module_is_started_again_as_it_was() -> None:
    original = ["/usr/bin/python3", "-X", "dev", "-m", "pyromq", *ARGUMENTS]

    assert _command(original, ARGUMENTS) == original


def test_a_script_is_started_again_as_a_module_that_finds_nothing_beside_itself() -> None:
    command = _command(["/usr/bin/python3", "/usr/bin/pyromq", *ARGUMENTS], ARGUMENTS)

    assert command == ["/usr/bin/python3", "-P", "-m", "pyromq", *ARGUMENTS]


def test_another_program_is_not_started_again() -> None:
    assert _command(["/usr/bin/python3", "-m", "pytest", "tests"], ["tests"]) is None
    assert _command(["/usr/bin/python3", "-c", "…"], []) is None


def test_a_broker_imports_no_command_line_nor_what_it_is_not_asked_for() -> None:
    program = """
import sys
import pyromq.cli.handover, pyromq.cli.servers
print(*{"typer", "rich", "pydantic", "yaml", "http.server", "pyromq.namesrv.namesrv"} & sys.modules.keys())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout.split() == []
