"""The commands that servers print when they are ready, pasted one after the other."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyromq.testing.waiting import eventually

BIN = Path(sys.executable).parent
COMMAND = re.compile(r"(?:^|  |next: )(pyromq [^\n]+)$", re.MULTILINE)


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYROMQ_", "NAMESRV"))}
    return kept | {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "share"),
    }


@contextmanager
def greeted(command: str, folder: Path) -> Iterator[str]:
    """Run a server as it is typed, and yield what it says when it is ready."""
    folder.mkdir(exist_ok=True)
    said = folder / f"{len(list(folder.glob('*.said')))}.said"
    with said.open("wb") as output:
        server = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=folder,
            env=environment(folder),
            stdout=output,
            stderr=output,
        )
    try:
        eventually(lambda: "ready" in said.read_text(), 60, what=f"{command} is ready")
        # The greeting is printed in one go; its last line may still be on its way.
        eventually(lambda: said.read_text().endswith("\n"), what="the greeting is whole")
        yield said.read_text()
    finally:
        server.terminate()
        server.wait(60)


def paste(command: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_commands_of_ups_greeting_send_a_message_and_read_it(tmp_path: Path) -> None:
    with greeted("pyromq up --namesrv-port 0 --broker-port 0 --no-dashboard", tmp_path) as said:
        send, read = COMMAND.findall(said)
        paste(send, tmp_path)
        assert "Hello, world" in paste(read, tmp_path)


def test_the_commands_of_a_clusters_greeting_do_what_they_say(tmp_path: Path) -> None:
    with greeted("pyromq up --brokers 2 --namesrv-port 0 --broker-port 0 --no-dashboard", tmp_path) as said:
        send, read, look = COMMAND.findall(said)
        paste(send, tmp_path)
        assert "Hello, world" in paste(read, tmp_path)
        assert "broker-b" in paste(look, tmp_path)


def test_the_next_command_of_a_name_server_starts_a_broker_that_registers_there(tmp_path: Path) -> None:
    with greeted("pyromq namesrv -p 0", tmp_path / "one") as said:
        (following,) = COMMAND.findall(said)
        # The machine of the test may have a broker at the usual port.
        with greeted(f"{following} --port 0", tmp_path / "other") as registered:
            name_server = following.split()[-1]
            assert f"registers with {name_server}" in registered
            assert "broker-a" in paste(f"pyromq cluster list -n {name_server}", tmp_path)
