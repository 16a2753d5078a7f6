"""Health pages of the installed program, and `pyromq health`."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from pyromq.testing.waiting import eventually

# The fixture `shell` is in conftest.py, and so is its type.
Shell = Any


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def test_health_is_served_without_metrics_and_asked_by_a_command(shell: Shell, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert shell.run("health", address).returncode == 1
    port = address.rpartition(":")[2]
    program = shell.up(tmp_path / "data", "--set", f"healthPort={port}", "--no-dashboard")
    assert "metrics" not in program.ready()

    said = json.loads(shell.output_of("health", address, "--json"))
    assert said["ok"] is said["ready"] is True
    assert list(said["checks"]) == [
        *("loop", "name_server", "store", "serving", "disk", "lease", "replication"),
    ]
    assert "is well" in shell.output_of("health", address, "--live")

    assert program.stop() == 0
    ended = shell.run("health", address)
    assert (ended.returncode, "does not answer" in ended.stdout) == (1, True)


def test_a_broker_that_no_name_server_knows_says_so(shell: Shell, tmp_path: Path) -> None:
    port = free_port()
    nobody = f"127.0.0.1:{free_port()}"
    broker = shell.serve(
        *("broker", "-n", nobody, "--port", "0", "--data", str(tmp_path / "data")),
        *("--set", f"healthPort={port}"),
    )
    broker.ready()

    ended = shell.run("health", f"127.0.0.1:{port}")

    assert ended.returncode == 1
    assert ended.stdout == f"serving: no name server took its last registration: {nobody}\n"
    assert shell.run("health", f"127.0.0.1:{port}", "--live").returncode == 0


def test_a_dashboard_has_the_pages_on_its_own_port_and_on_another(shell: Shell) -> None:
    near = f"127.0.0.1:{free_port()}"
    nobody = f"127.0.0.1:{free_port()}"
    shell.environment["PYROMQ_DASHBOARD_PASSWORD"] = "correct horse"
    shell.environment["PYROMQ_HEALTH_PORT"] = near.rpartition(":")[2]
    served = shell.serve("dashboard", "-n", nobody, "--port", "0")
    own = served.ready()["url"].removeprefix("http://")

    for address in (near, own):
        said = eventually(
            lambda asked=address: (
                (answer := json.loads(shell.run("health", asked, "--json").stdout))["ok"] and answer
            ),
            60,
            what="the dashboard is ready",
        )
        assert {"loop", "serving", "rounds"} == set(said["checks"])
        assert shell.run("health", address, "--live").returncode == 0
    # As in a container: the same variable says where it is served, and where it is asked for.
    assert shell.output_of("health") == f"http://{near}/health/ready is well\n"

    assert served.stop() == 0
    assert shell.run("health", own).returncode == shell.run("health", near).returncode == 1


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1:1/health/ready"])
def test_what_is_no_address_is_wrong_use(shell: Shell, url: str) -> None:
    ended = shell.run("health", url)
    assert ended.returncode == 2
    assert "say http://HOST:PORT/health/ready, or HOST:PORT" in ended.stderr
