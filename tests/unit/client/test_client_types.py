"""Type checkers see the declared methods with their parameters and results, in both faces."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

PROGRAM = """
import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import assert_type

import pyromq
from pyromq import DeadLetter, Message, ReceivedMessage, SendResult, aio


def blocking(producer: pyromq.Producer, admin: pyromq.Admin, dead: pyromq.DeadLetters, one: Message) -> None:
    assert_type(producer.send(one, timeout_ms=3), SendResult)
    assert_type(producer.send_async(one), Future[SendResult])
    assert_type(producer.request(one), ReceivedMessage)
    assert_type(admin.topics(), list[str])
    assert_type(dead.read("group"), Iterator[DeadLetter])


async def awaitable(producer: aio.Producer, admin: aio.Admin, dead: aio.DeadLetters, one: Message) -> None:
    assert_type(await producer.send(one, timeout_ms=3), SendResult)
    assert_type(producer.send_async(one), asyncio.Task[SendResult])
    assert_type(await producer.request(one), ReceivedMessage)
    assert_type(await admin.topics(), list[str])
    assert_type(dead.read("group"), AsyncIterator[DeadLetter])


def mistaken(producer: pyromq.Producer, awaitable: aio.Producer, one: Message) -> None:
    producer.send("no message")
    producer.send(one, timeout="3 s")
    producer.send()
    awaitable.send("no message")
    awaitable.send(one, 3)
"""

MISTAKES = "def mistaken(producer: pyromq.Producer, awaitable: aio.Producer, one: Message) -> None:"


def test_both_faces_are_typed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    errors = {int(line.split(":")[1]) for line in ended.stdout.splitlines() if ": error:" in line}
    lines = PROGRAM.splitlines()
    assert sorted(errors) == list(range(lines.index(MISTAKES) + 2, len(lines) + 1)), (
        ended.stdout + ended.stderr
    )
