"""A MariaDB of the test's own, on a free port of the loopback address, from a package of Maven's."""

import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath

import pymysql
import pytest
from harness.ports import free_broker_port
from harness.toolchains import Unavailable, built, java_classpath

from pyromq.testing.waiting import eventually

#: What of the package the server needs: the program, its messages, its character sets.
_NEEDED = ("linux/bin/mariadbd", "linux/share/english/", "linux/share/charsets/")
_OPTIONS = (
    "--no-defaults",
    "--user=root",
    "--skip-grant-tables",
    "--skip-name-resolve",
    # Making a key of its own would take it seconds.
    "--skip-ssl",
    "--bind-address=127.0.0.1",
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-file-size=4M",
    "--innodb-data-file-path=ibdata1:4M:autoextend",
    "--innodb-temp-data-file-path=ibtmp1:4M:autoextend",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-fast-shutdown=2",
)


class MariaDB:
    """A running server; each `database()` is a new, empty one."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._made = 0

    def database(self) -> str:
        """Make a database and return its name."""
        self._made += 1
        name = f"test_{self._made}"
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        return name

    def connect(self, database: str | None = None) -> "pymysql.Connection[pymysql.cursors.Cursor]":
        return pymysql.connect(host="127.0.0.1", port=self.port, user="tester", database=database)

    def is_ready(self) -> bool:
        try:
            self.connect().close()
        except pymysql.OperationalError:
            return False
        return True


@contextmanager
def running_mariadb() -> Iterator[MariaDB]:
    """Start a server for the block; skip the test where it cannot be had, and fail it where CI runs."""
    home = _home()
    port = free_broker_port()
    folder = Path(tempfile.mkdtemp(prefix="pyromq-mariadb-"))
    try:
        (folder / "data").mkdir()
        places = (f"--datadir={folder / 'data'}", f"--socket={folder / 'socket'}", f"--port={port}")
        home_of = (f"--basedir={home}", f"--lc-messages-dir={home / 'share'}")
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [home / "bin" / "mariadbd", *_OPTIONS, *home_of, *places], stdout=log, stderr=log, cwd=folder
            )
        try:
            server = MariaDB(port)
            eventually(lambda: server.is_ready() or process.poll() is not None, 60, what="MariaDB runs")
            assert process.poll() is None, (folder / "log").read_text()
            yield server
        finally:
            process.terminate()
            process.wait(30)
    finally:
        shutil.rmtree(folder)


def _home() -> Path:
    """Return the folder of the unpacked server."""
    try:
        jar = Path(java_classpath("mariadb"))
    except Unavailable as error:
        reason = f"MariaDB cannot be had: {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)

    def unpack(target: Path) -> None:
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                _, found, inside = name.partition("/linux/")
                if found and not name.endswith("/") and f"linux/{inside}".startswith(_NEEDED):
                    path = target / PurePosixPath(inside)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(name) as packed, path.open("wb") as file:
                        shutil.copyfileobj(packed, file)
        (target / "bin" / "mariadbd").chmod(0o755)

    return built("mariadb", [Path(__file__)], unpack)
