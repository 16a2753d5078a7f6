"""The installed program, run as a user runs it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.testing.waiting import eventually

PYROMQ = Path(sys.executable).with_name("pyromq")
#: Long, because it is only spent when a test fails; two cores may be busy with other tests.
DEADLINE_S = 60.0
#: The end of a program's log that a failed test shows.
LOG_CHARACTERS = 8_192


class Program:
    """A running `pyromq`, its output in files."""

    def __init__(self, arguments: tuple[str, ...], folder: Path, environment: dict[str, str]) -> None:
        self.ready_file = folder / "ready.json"
        self._out = folder / "out"
        self._err = folder / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [PYROMQ, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                cwd=folder,
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def ready(self) -> dict[str, Any]:
        """Wait until it is ready, and return what it says about itself."""
        eventually(
            lambda: self.ready_file.exists() or self.process.poll() is not None, DEADLINE_S, what="ready"
        )
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.err}"
        record: dict[str, Any] = json.loads(self.ready_file.read_text())
        return record

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(DEADLINE_S)


class Shell:
    """Starts programs, waits for others, and leaves none behind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Program] = []
        hidden = ("NAMESRV_ADDR", "PYROMQ_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        # Programs that fall back to the user's folders find these.
        self.environment = kept | {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "share")}
        # Tests run beside each other, and the port that is opened unless somebody says otherwise is one.
        self.environment["PYROMQ_GRPC_SERVER_PORT"] = "0"

    def start(self, *arguments: str) -> Program:
        """Start a program and do not wait for it."""
        folder = self._folder / f"program-{len(self._started)}"
        folder.mkdir()
        program = Program(arguments, folder, self.environment)
        self._started.append(program)
        return program

    def serve(self, *arguments: str) -> Program:
        """Start a server that says when it is ready."""
        return self.start(*arguments, "--ready-file", "ready.json")

    def up(self, data: Path, *arguments: str) -> Program:
        """Start a name server and a broker on free ports."""
        ports = ("--namesrv-port", "0", "--broker-port", "0")
        return self.serve("up", "--data", str(data), *ports, *arguments)

    def run(self, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a program to its end."""
        return subprocess.run(
            [PYROMQ, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            env=self.environment,
            cwd=self._folder,
            check=False,
        )

    def output_of(self, *arguments: str, stdin: str = "") -> str:
        """Run a program that must succeed, and return what it prints."""
        ended = self.run(*arguments, stdin=stdin)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def close(self) -> None:
        for number, program in enumerate(self._started):
            if program.process.poll() is None:
                program.process.kill()
                program.process.wait()
            # pytest shows it when the test failed.
            print(f"program {number}, {program.process.args}:\n{program.err[-LOG_CHARACTERS:]}")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell in an empty folder with no settings in its environment."""
    shell = Shell(tmp_path)
    yield shell
    shell.close()


@pytest.fixture(scope="module")
def shared_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name server of a `pyromq up` that the tests of a module share, with topics of their own."""
    folder = tmp_path_factory.mktemp("shared")
    shell = Shell(folder)
    yield shell.up(folder / "data").ready()["namesrv"]
    shell.close()


@pytest.fixture
def up(shell: Shell, tmp_path: Path) -> Callable[..., Program]:
    """`pyromq up` on this test's data folder; may be called again after a stop."""

    def start(*arguments: str) -> Program:
        return shell.up(tmp_path / "data", *arguments)

    return start
