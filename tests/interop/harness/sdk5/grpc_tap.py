"""A tap between an SDK and a server: what passes in plain HTTP/2 is noted, call by call.

Servers tell clients in routes where to connect; the tap puts its own port in the place of the server's there.
That changes no length, for both numbers take three bytes.
"""

import socket
import ssl
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from hpack import Decoder

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _PUSH, _CONTINUATION = 0, 1, 3, 5, 9
_END_STREAM, _END_HEADERS, _PADDED, _PRIORITY = 1, 4, 8, 32
#: Connections that wait to be taken.
_BACKLOG = 64
_CHUNK = 65_536


@dataclass
class TappedCall:
    """One call: its headers and messages in the order in which they passed."""

    connection: int
    request_headers: list[tuple[str, str]] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    answer_headers: list[list[tuple[str, str]]] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    #: When its last answer passed, among all answers of the tap; of a stream of both ways, its first.
    place: int = 0
    #: Who ended what: "client", "server", or "reset by client", "reset by server".
    ends: list[str] = field(default_factory=list)

    @property
    def rpc(self) -> str:
        """The name of the method."""
        return dict(self.request_headers).get(":path", "/").rpartition("/")[2]


class _Side:
    """One direction of a connection, cut into frames."""

    def __init__(self, connection: "_Connection", name: str) -> None:
        self.connection, self.name = connection, name
        self._waiting = PREFACE if name == "client" else b""
        self._buffer = b""
        self._headers = Decoder()
        self._block: dict[int, bytes] = {}
        self._bodies: dict[int, bytes] = {}

    def pass_on(self, data: bytes) -> bytes:
        """Note what arrived, and return what is to be passed on: whole frames."""
        self._buffer += data
        passed = b""
        if self._waiting:
            if len(self._buffer) < len(self._waiting):
                return b""
            passed, self._buffer, self._waiting = self._waiting, self._buffer[len(self._waiting) :], b""
        while len(self._buffer) >= 9:
            length = int.from_bytes(self._buffer[:3])
            if len(self._buffer) < 9 + length:
                break
            frame, self._buffer = self._buffer[: 9 + length], self._buffer[9 + length :]
            passed += self._frame(frame)
        return passed

    def _frame(self, frame: bytes) -> bytes:
        kind, flags, stream = frame[3], frame[4], struct.unpack(">I", frame[5:9])[0] & 0x7FFFFFFF
        payload = frame[9:]
        if kind == _DATA:
            payload = self.connection.rewrite(self.name, payload)
            frame = frame[:9] + payload
            self._data(stream, _unpadded(flags, payload), ended=bool(flags & _END_STREAM))
        elif kind == _HEADERS:
            block = _unpadded(flags, payload)[5 if flags & _PRIORITY else 0 :]
            self._block[stream] = block
            if flags & _END_STREAM:
                self._block[-stream] = b""
            self._header_end(stream, flags)
        elif kind == _CONTINUATION:
            self._block[stream] += payload
            self._header_end(stream, flags)
        elif kind == _RESET:
            self.connection.call(stream).ends.append(f"reset by {self.name}")
        return frame

    def _header_end(self, stream: int, flags: int) -> None:
        if not flags & _END_HEADERS:
            return
        fields = [(str(name), str(value)) for name, value in self._headers.decode(self._block.pop(stream))]
        call = self.connection.call(stream)
        if self.name == "client":
            call.request_headers += fields
        else:
            call.answer_headers.append(fields)
        if self._block.pop(-stream, None) is not None:
            call.ends.append(self.name)

    def _data(self, stream: int, data: bytes, *, ended: bool) -> None:
        call = self.connection.call(stream)
        body = self._bodies.pop(stream, b"") + data
        while len(body) >= 5 and len(body) >= 5 + int.from_bytes(body[1:5]):
            length = int.from_bytes(body[1:5])
            (call.requests if self.name == "client" else call.answers).append(body[5 : 5 + length])
            if self.name == "server" and not (call.rpc == "Telemetry" and call.place):
                call.place = self.connection.next_place()
            body = body[5 + length :]
        self._bodies[stream] = body
        if ended:
            call.ends.append(self.name)


def _unpadded(flags: int, payload: bytes) -> bytes:
    return payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload


class _Connection:
    def __init__(self, tap: "GrpcTap", number: int) -> None:
        self._tap, self._number = tap, number
        self._calls: dict[int, TappedCall] = {}

    def call(self, stream: int) -> TappedCall:
        with self._tap.lock:
            if stream not in self._calls:
                self._calls[stream] = TappedCall(self._number)
                self._tap.calls.append(self._calls[stream])
            return self._calls[stream]

    def next_place(self) -> int:
        with self._tap.lock:
            self._tap.places += 1
            return self._tap.places

    def rewrite(self, side: str, payload: bytes) -> bytes:
        return self._tap.rewritten(payload) if side == "server" else payload


class GrpcTap:
    """Listens at a port and passes everything on to another; to be used as a context manager.

    With a certificate it takes TLS, and passes on what was inside.
    """

    def __init__(self, port: int, upstream: int, certificate: Path | None = None) -> None:
        self.calls: list[TappedCall] = []
        self.places = 0
        self.lock = threading.Lock()
        self._told, self._tells = (b"\x10" + _varint(each) for each in (upstream, port))
        assert len(self._told) == len(self._tells)
        self.port, self._upstream = port, upstream
        self._listener = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
        self._tls = _tls(certificate) if certificate else None
        self._sockets: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._sockets:
            with suppress(OSError):  # it is closed already
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()

    def rewritten(self, payload: bytes) -> bytes:
        """Put the tap's port where the server names its own."""
        return payload.replace(b"127.0.0.1" + self._told, b"127.0.0.1" + self._tells)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                if self._tls:
                    near = self._tls.wrap_socket(near, server_side=True)
                far = socket.create_connection(("127.0.0.1", self._upstream))
            except OSError:
                return
            connection = _Connection(self, len(self._sockets) // 2)
            self._sockets += (near, far)
            for source, target, name in ((near, far, "client"), (far, near, "server")):
                thread = threading.Thread(
                    target=self._copy, args=(source, target, _Side(connection, name)), daemon=True
                )
                self._threads.append(thread)
                thread.start()

    def _copy(self, source: socket.socket, target: socket.socket, side: _Side) -> None:
        try:
            while data := source.recv(_CHUNK):
                target.sendall(side.pass_on(data))
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other side is gone; its own copy ends likewise


def _tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2"])
    return context


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
