"""A program of clients on a machine that has only what Windows has too; its argument is a name server.

What only POSIX has is taken away first, so that a call of it that has no fallback ends the program.
"""

import asyncio
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

for module in ("fcntl", "grp", "pwd", "resource", "syslog", "termios", "uvloop"):
    sys.modules[module] = None  # type: ignore[assignment]
for name in (
    *("chown", "fchmod", "fchown", "fdatasync", "fork", "forkpty", "getegid", "geteuid", "getgid", "getuid"),
    *("getloadavg", "posix_fadvise", "posix_fallocate", "pread", "pwrite", "readv", "register_at_fork"),
    *("sched_getaffinity", "sendfile", "statvfs", "sync", "uname", "writev", "O_CLOEXEC", "O_DIRECTORY"),
):
    delattr(os, name)
for name in ("SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "SIGUSR2", "pthread_sigmask"):
    delattr(signal, name)
for name in ("SO_REUSEPORT", "MSG_DONTWAIT"):
    delattr(socket, name)

from pyromq import ClientSettings, ConsumeFrom, Message, Producer, PullConsumer, PushConsumer, aio  # noqa: E402
from pyromq.once import Began, SqliteTokens  # noqa: E402
from pyromq.testing.waiting import eventually  # noqa: E402

TOPIC = "without-posix"
FIRST = ConsumeFrom.FIRST_OFFSET


def blocking(name_server: str, folder: Path) -> None:
    """Send, consume by push, and read as a broadcasting member."""
    pushed: list[bytes] = []
    with Producer("pg", name_server) as producer:
        producer.send(Message(TOPIC, b"0" * 5_000))
        producer.send_async(Message(TOPIC, b"1")).result(20)
        with PushConsumer(
            "cg", name_server, listener=lambda message: pushed.append(message.body), consume_from=FIRST
        ) as consumer:
            consumer.subscribe(TOPIC)
            eventually(lambda: len(pushed) == 2)
    settings = ClientSettings(local_offset_store_dir=str(folder / "offsets"))
    with PullConsumer("bg", name_server, settings, model="broadcasting", start_from=FIRST) as reader:
        reader.subscribe(TOPIC)
        for index, _message in enumerate(reader):
            if index == 1:
                break
    assert list((folder / "offsets").rglob("offsets.json"))


async def awaitable(name_server: str) -> None:
    """Send, and read by iteration."""
    async with aio.Producer("apg", name_server) as producer:
        await producer.send(Message(TOPIC, b"2"))
    async with aio.PullConsumer("acg", name_server, start_from=FIRST) as consumer:
        consumer.subscribe(TOPIC)
        seen = 0
        async for _message in consumer:
            seen += 1
            if seen == 3:
                return


def main(name_server: str) -> None:
    """Do all of it."""
    with tempfile.TemporaryDirectory() as folder:
        blocking(name_server, Path(folder))
        asyncio.run(awaitable(name_server))
        assert SqliteTokens(Path(folder) / "tokens.db").begin("42", "me") is Began.MINE


if __name__ == "__main__":
    main(sys.argv[1])
