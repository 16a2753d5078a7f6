"""`pyromq run`: the handlers of an application in processes of their own."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from pyromq.testing.waiting import eventually

# The fixtures `shell` and `shared_address` are in conftest.py, and so are their types.
Shell = Any
MODULE = """
import os, time
from dataclasses import dataclass
import pyromq

app = pyromq.App("{name}")


@dataclass
class Order:
    id: int


@app.consumer("{name}-orders", publishes="{name}-invoices")
def charge(order: Order) -> dict[str, object]:
    print("VERSION charges", order.id, flush=True)
    open("{folder}/began", "w").close()
    time.sleep({seconds})
    return {{"id": order.id, "pid": os.getpid(), "said": "VERSION"}}
"""


@pytest.fixture
def write(shell: Shell, tmp_path: Path, shared_address: str, request: pytest.FixtureRequest) -> Any:
    """Write the application's module, which no other test has, and return its name."""
    shell.environment |= {"PYTHONPATH": str(tmp_path), "NAMESRV_ADDR": shared_address}
    name = f"app{abs(hash(request.node.nodeid))}"

    def write(version: str = "first", seconds: float = 0.0) -> str:
        text = MODULE.format(name=name, folder=tmp_path, seconds=seconds).replace("VERSION", version)
        # Whoever looks sees all of it.
        whole = tmp_path / "module.new"
        whole.write_text(text)
        whole.replace(tmp_path / f"{name}.py")
        return name

    return write


def send(shell: Shell, name: str, number: int) -> None:
    shell.output_of("produce", f"{name}-orders", json.dumps({"id": number}))


def invoices(shell: Shell, name: str) -> list[dict[str, Any]]:
    ended = shell.run("consume", f"{name}-invoices", "--from", "first", "--body-only")
    return [json.loads(line) for line in ended.stdout.splitlines()] if ended.returncode == 0 else []


def test_it_runs_until_a_signal_and_ends_the_handlers_that_run(
    shell: Shell, write: Any, tmp_path: Path
) -> None:
    name = write(seconds=1.0)
    service = shell.serve("run", name, "--metrics-port", "0")
    hello = service.ready()
    assert hello["handlers"] == [
        {"handler": "charge", "topic": f"{name}-orders", "group": f"{name}-charge"},
    ]
    assert hello["metrics"].startswith("http://127.0.0.1:")

    send(shell, name, 7)
    eventually((tmp_path / "began").exists)
    assert service.stop() == 0

    assert [invoice["id"] for invoice in invoices(shell, name)] == [7]
    assert f"charge   {name}-orders → group {name}-charge" in service.out


def test_a_worker_that_is_killed_is_started_again(shell: Shell, write: Any) -> None:
    name = write()
    service = shell.serve("run", f"{name}:app", "--workers", "2")
    first, second = service.ready()["workers"]

    os.kill(first, signal.SIGKILL)
    eventually(lambda: "was ended by SIGKILL; it is started again" in service.err)
    os.kill(second, signal.SIGSTOP)  # so that nobody else can take its queues
    os.kill(second, signal.SIGKILL)
    for number in range(8):
        send(shell, name, number)
    eventually(lambda: {each["id"] for each in invoices(shell, name)} == set(range(8)), 60)

    assert {each["pid"] for each in invoices(shell, name)}.isdisjoint({first, second})
    assert "worker 1: first charges" in service.err
    assert service.stop() == 0


def test_workers_are_started_anew_when_a_file_changes(shell: Shell, write: Any, tmp_path: Path) -> None:
    name = write()
    service = shell.serve("run", name, "--reload", "--reload-dir", str(tmp_path))
    service.ready()
    send(shell, name, 1)
    eventually(lambda: [each["said"] for each in invoices(shell, name)] == ["first"], 60)

    (tmp_path / f"{name}.py").write_text("no python")
    eventually(lambda: "cannot be imported" in service.err)
    write("second")
    send(shell, name, 2)
    eventually(lambda: [each["said"] for each in invoices(shell, name)] == ["first", "second"], 60)

    assert f"{name}.py changed: the workers are started anew" in service.out
    assert service.stop() == 0


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("no_such_module:app", "there is no module 'no_such_module' here"),
        ("{name}:what", "{name} has no application named 'what'; it has {name}:app"),
        ("{name}.py", "is no module: write `pyromq run package.module:app`, without .py"),
        ("broken:app", "module broken cannot be imported: ZeroDivisionError('division by zero')"),
        ("needs:app", "module needs needs 'no_such_package', which is not installed"),
    ],
)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_application_that_is_not_there_is_named(
    shell: Shell, write: Any, tmp_path: Path, target: str, says: str, workers: str
) -> None:
    name = write()
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "needs.py").write_text("import no_such_package")

    ended = shell.run("run", target.format(name=name), "--workers", workers)

    assert ended.returncode == (2 if workers == "1" else 1)
    assert says.format(name=name) in ended.stderr
    assert "Traceback" not in ended.stderr
