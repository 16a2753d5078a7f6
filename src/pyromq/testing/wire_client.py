"""A client that is nothing but frames: for tests of what a server answers, to the last byte.

    async with WireClient(broker.address) as client:
        answer = await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})

Requests that the server sends are collected in `pushed`; `on_push` may answer them.
"""

import asyncio
import struct
from collections.abc import Callable, Mapping
from itertools import count
from types import TracebackType
from typing import Self

from pyromq.codes import VERSION, CommandFlag, Language, Serializer
from pyromq.net.address import split_address
from pyromq.wire.command import Command, decode_header, encode

#: Seconds that an answer may take; only ever spent when a test fails.
ANSWER_S_MAX = 20.0

_LENGTHS = struct.Struct(">iI")


class WireClient:
    """One connection to a server."""

    def __init__(
        self,
        address: str,
        *,
        language: int = Language.JAVA,
        version: int = VERSION,
        serializer: int = Serializer.JSON,
    ) -> None:
        self.pushed: list[Command] = []
        self.on_push: Callable[[Command], Command | None] = lambda _command: None
        #: The header of each answer as it came, by opaque number.
        self.raw_headers: dict[int, bytes] = {}
        self._address = address
        self._language = language
        self._version = version
        self._serializer = serializer
        self._opaques = count(1)
        self._waiting: dict[int, asyncio.Future[Command]] = {}

    async def __aenter__(self) -> Self:
        host, port = split_address(self._address)
        self._reader, self._writer = await asyncio.open_connection(host, port)
        name = self._writer.get_extra_info("sockname")
        self.own_address = f"{name[0]}:{name[1]}"
        self._reading = asyncio.get_running_loop().create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        await asyncio.wait({self._reading}, timeout=ANSWER_S_MAX)

    def abort(self) -> None:
        """End the connection at once, whatever is still on its way."""
        self._writer.transport.abort()

    @property
    def is_hung_up(self) -> bool:
        """Whether the server ended the connection."""
        return self._reading.done()

    async def ask(
        self,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        opaque: int | None = None,
    ) -> Command:
        """Send a request and return its answer."""
        return await asyncio.wait_for(self.begin(code, ext, body, opaque=opaque), ANSWER_S_MAX)

    def begin(
        self,
        code: int,
        ext: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        opaque: int | None = None,
    ) -> "asyncio.Future[Command]":
        """Send a request and return what will be its answer."""
        command = self._command(code, ext, body)
        command.opaque = next(self._opaques) if opaque is None else opaque
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._waiting[command.opaque] = answer
        self._writer.write(encode(command))
        return answer

    def tell(self, code: int, ext: Mapping[str, object] | None = None, body: bytes = b"") -> None:
        """Send a request that wants no answer."""
        command = self._command(code, ext, body)
        command.opaque = next(self._opaques)
        command.flag = CommandFlag.ONEWAY
        self._writer.write(encode(command))

    def _command(self, code: int, ext: Mapping[str, object] | None, body: bytes) -> Command:
        texts = None if ext is None else {name: _as_text(value) for name, value in ext.items()}
        return Command(
            code,
            ext=texts,
            body=body,
            language=self._language,
            version=self._version,
            serializer=self._serializer,
        )

    async def _read(self) -> None:
        try:
            while True:
                length, mark = _LENGTHS.unpack(await self._reader.readexactly(_LENGTHS.size))
                header = await self._reader.readexactly(mark & 0xFFFFFF)
                command = decode_header(header, mark >> 24)
                command.body = await self._reader.readexactly(length - 4 - len(header))
                self._take(command, header)
        except (asyncio.IncompleteReadError, ConnectionError):
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(ConnectionResetError("the server hung up"))

    def _take(self, command: Command, header: bytes) -> None:
        if command.is_response:
            self.raw_headers[command.opaque] = header
            answer = self._waiting.pop(command.opaque, None)
            if answer is not None and not answer.done():
                answer.set_result(command)
            return
        self.pushed.append(command)
        reply = self.on_push(command)
        if reply is not None:
            reply.opaque = command.opaque
            reply.flag |= CommandFlag.RESPONSE
            self._writer.write(encode(reply))


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
