"""A PostgreSQL of the test's own, on a free port of the loopback address, from Debian's package."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from harness.ports import free_broker_port

from pyromq.testing.waiting import eventually


class PostgreSQL:
    """A running server; each `database()` is a new, empty one."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._made = 0

    def database(self) -> str:
        """Make a database and return how to connect to it."""
        self._made += 1
        name = f"test_{self._made}"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self._address(name)

    def is_ready(self) -> bool:
        try:
            psycopg.connect(self._address("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def _address(self, database: str) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}/{database}"


@contextmanager
def running_postgresql() -> Iterator[PostgreSQL]:
    """Start a server for the block; skip the test where there is none, and fail it where CI runs."""
    programs = _programs()
    # pytest's own folders are closed to other users, and PostgreSQL refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="pyromq-postgresql-"))
    user = _user()
    try:
        if user is not None:
            shutil.chown(folder, user)
        _run([programs / "initdb", "-D", folder / "data", "-U", "tester", *_INITDB], folder, user)
        port = free_broker_port()
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [programs / "postgres", "-D", folder / "data", "-p", str(port), *_SERVER],
                stdout=log,
                stderr=log,
                user=user,
                cwd=folder,
            )
        try:
            server = PostgreSQL(port)
            eventually(lambda: server.is_ready() or process.poll() is not None, 60, what="PostgreSQL runs")
            assert process.poll() is None, (folder / "log").read_text()
            yield server
        finally:
            # SIGINT is its fast stop: connections are ended.
            process.send_signal(signal.SIGINT)
            process.wait(30)
    finally:
        shutil.rmtree(folder)


_INITDB = ("-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
_SERVER = (
    *("-c", "listen_addresses=127.0.0.1"),
    *("-c", "unix_socket_directories="),
    *("-c", "fsync=off"),
    *("-c", "max_connections=40"),
)


def _programs() -> Path:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [
        Path(found).resolve() for found in [shutil.which("initdb")] if found
    ]
    if not installed:
        reason = "PostgreSQL is not installed (apt-get install postgresql)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return installed[-1].parent


def _user() -> str | None:
    if os.getuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _run(command: list[object], folder: Path, user: str | None) -> None:
    ended = subprocess.run(
        [str(part) for part in command], cwd=folder, user=user, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
