"""Real Celery workers on a broker: an application in a folder, processes, and what its tasks noted."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from celery import Celery
from kombu.common import Broadcast

APPLICATION = """
import json, os, time
from celery import Celery
from kombu.common import Broadcast

app = Celery("shop", broker=os.environ["SHOP_BROKER"])
app.conf.update(
    broker_transport=os.environ["SHOP_TRANSPORT"] or None,
    broker_transport_options=json.loads(os.environ["SHOP_OPTIONS"]),
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    **json.loads(os.environ.get("SHOP_CONF", "{}")),
)
if os.environ.get("SHOP_NEWS"):
    from kombu import Exchange, Queue
    app.conf.task_queues = [Queue("celery", Exchange("celery"), "celery"), Broadcast("news")]


def note(**what):
    with open(os.environ["SHOP_NOTES"], "a") as notes:
        notes.write(json.dumps({"at": time.time(), "pid": os.getpid(), **what}) + "\\n")


@app.task(name="shop.add")
def add(number):
    note(did=number)


@app.task(name="shop.work", acks_late=True, bind=True)
def work(self, number):
    note(began=number, redelivered=self.request.delivery_info["redelivered"])
    gate = os.environ["SHOP_NOTES"] + ".gate"
    while not os.path.exists(gate):
        time.sleep(0.02)
    note(did=number)


@app.task(name="shop.everywhere")
def everywhere(what):
    note(heard=what, worker=os.environ["SHOP_WORKER"])


@app.task(name="shop.nothing")
def nothing():
    pass
"""


class CeleryStage:
    """A folder with an application, and its workers."""

    def __init__(
        self, folder: Path, url: str, *, transport: str = "pyromq.kombu:Transport", **options: Any
    ) -> None:
        self.notes_path = folder / "notes"
        self._folder = folder
        (folder / "shop.py").write_text(APPLICATION)
        self._environment = os.environ | {
            "SHOP_BROKER": url,
            "SHOP_TRANSPORT": transport,
            "SHOP_OPTIONS": json.dumps(options),
            "SHOP_NOTES": str(self.notes_path),
        }
        self.app = Celery("shop", broker=url)
        self.app.conf.update(
            broker_transport=transport or None, broker_transport_options=options, task_ignore_result=True
        )

    def send(self, name: str, *arguments: Any, **options: Any) -> None:
        """Send a task."""
        self.app.send_task(f"shop.{name}", arguments, **options)

    def broadcast(self, name: str, *arguments: Any) -> None:
        """Send a task to every worker."""
        self.send(name, *arguments, queue=Broadcast("news"))

    @contextmanager
    def worker(
        self, name: str = "one", *, pool: str = "solo", concurrency: int = 1, **environment: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a worker for the block; it is ended in order, unless it was killed."""
        arguments = ["worker", "-l", "info", "-P", pool, "-c", str(concurrency), "-n", f"{name}@test"]
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "shop", *arguments],
                cwd=self._folder,
                env=self._environment | {"SHOP_WORKER": name} | environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(60)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a worker and its children, as a machine that is lost would."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)

    def notes(self, key: str) -> list[dict[str, Any]]:
        """Return what tasks noted under a key."""
        if not self.notes_path.exists():
            return []
        found = [json.loads(line) for line in self.notes_path.read_text().splitlines()]
        return [note for note in found if key in note]

    def open_gate(self) -> None:
        """Let the tasks end that wait."""
        Path(f"{self.notes_path}.gate").touch()

    def log(self, name: str = "one") -> str:
        """Return what a worker printed."""
        path = self._folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        """Close the application's connections."""
        self.app.producer_pool.force_close_all()
        self.app.pool.force_close_all()
        self.app.close()
