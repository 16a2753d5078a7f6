"""One meaning, two speeds: two brokers that get the same frames, one with the kernel and one without."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from pyromq.broker.broker import Broker
from pyromq.codes import Serializer
from pyromq.config.load import build
from pyromq.config.settings import BrokerProcess
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.command import Command, encode
from pyromq.wire.record import encode_host


def frame(
    code: int,
    fields: Mapping[str, object],
    body: bytes,
    serializer: Serializer,
    flag: int = 0,
    opaque: int = 1,
) -> bytes:
    """Return the bytes of a request."""
    ext = {name: value if isinstance(value, str) else str(value).lower() for name, value in fields.items()}
    return encode(Command(code, opaque=opaque, flag=flag, ext=ext, body=body, serializer=serializer))


class Side:
    """One of the two brokers, and a connection to it."""

    def __init__(
        self, folder: Path, *, use_kernel: bool, clock: ManualClock, flush: str, **others: object
    ) -> None:
        process = build(
            BrokerProcess,
            {
                "store_path_root_dir": str(folder), "listen_port": 0, "broker_ip1": "127.0.0.1",
                "mapped_file_size_commit_log": 40_000, "mapped_file_size_consume_queue": 200,
                "max_hash_slot_num": 50, "max_index_num": 90, "max_message_size": 4096,
                "flush_disk_type": flush, **others,
            },
        )  # fmt: skip
        self.folder = folder
        self._make = partial(Broker, process, clock=clock, use_kernel=use_kernel)
        self.broker = self._make()
        #: The hosts in what is stored: of the broker and of the connection, for each start.
        self.hosts: list[bytes] = []
        self.received = b""
        self.is_ended = False

    async def start(self) -> None:
        await self.broker.start()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.broker.port)
        own_port = self.writer.get_extra_info("sockname")[1]
        self.hosts += [encode_host("127.0.0.1", port) for port in (self.broker.port, own_port)]

    async def start_again(self) -> None:
        """Start once more, over what is stored."""
        self.broker = self._make()
        await self.start()

    async def feed(self, data: bytes) -> None:
        self.writer.write(data)
        await asyncio.sleep(0)

    async def warm_up(self, first: Sequence[bytes]) -> None:
        """Send the first requests, and read until each is answered."""
        await self.feed(b"".join(first))
        await self.read_until(lambda answers: len(answers) == len(first))
        self.received = b""

    async def read_until(self, is_done: Callable[[list[bytes]], bool]) -> None:
        """Read until the answers are those that are waited for, or the broker ends the connection."""
        while not self.is_ended and not is_done(self.answers()):
            try:
                data = await asyncio.wait_for(self.reader.read(1 << 20), 20)
            except ConnectionError:
                data = b""
            self.received += data
            self.is_ended = not data

    def answers(self) -> list[bytes]:
        """Return the frames that were received."""
        frames, at = [], 0
        while at < len(self.received):
            end = at + 4 + int.from_bytes(self.received[at : at + 4], "big")
            frames.append(self.masked(self.received[at:end]))
            at = end
        return frames

    async def close(self) -> None:
        self.writer.close()
        await self.broker.close()

    def masked(self, data: bytes) -> bytes:
        """Return bytes without the ports of this side."""
        for number, host in enumerate(self.hosts):
            mask = b"host %d__" % number
            port = int.from_bytes(host[4:], "big")
            data = data.replace(host, mask).replace(host.hex().upper().encode(), mask * 2)
            data = data.replace(b"127.0.0.1:%d" % port, mask)
        return data

    def files(self) -> dict[str, bytes]:
        """Return all that is stored, and the groups' progress."""
        stored = {
            str(path.relative_to(self.folder)): self.masked(path.read_bytes())
            for part in ("commitlog", "consumequeue", "index")
            for path in sorted((self.folder / part).rglob("*"))
            if path.is_file()
        }
        progress = self.folder / "config" / "consumerOffset.json"
        return stored | ({"progress": progress.read_bytes()} if progress.exists() else {})
