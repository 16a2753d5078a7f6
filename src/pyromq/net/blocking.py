"""Requests over plain sockets, for programs without a loop: thread-safe, and safe across `fork`.

A request has a socket to itself from its first byte to its answer, so threads need no reader thread and
cannot take each other's answers; idle sockets are kept for the next request to the same address. A socket
whose request timed out is closed: its late answer has nobody left to read it. After a fork the child leaves
the parent's sockets alone and opens its own.

Plain sends of a producer are another matter: they are many, short and answered at once, and those of all
threads to one address share a connection (`shared_link.py`).
"""

import contextlib
import itertools
import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from pyromq.codes import CommandFlag, ResponseCode
from pyromq.config.settings import NetSettings
from pyromq.errors import (
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    NetworkError,
    RemoteProtocolError,
    RequestTimeout,
)
from pyromq.net.address import split_address
from pyromq.net.shared_link import SharedLink, WakeChain
from pyromq.net.tls import client_context
from pyromq.net.tls_failures import ALERT, ended_after_handshake, is_of_tls, speaks_tls_only, tls_failure
from pyromq.wire.command import Command, CommandReader, encode

RECEIVE_BYTES = 256 * 1024


class BlockingLinks:
    """Requests to many servers, one at a time on each socket."""

    def __init__(self, settings: NetSettings) -> None:
        self._settings = settings
        self._context = client_context(settings)
        self._opaques = itertools.count(1)
        self._lock = threading.Lock()
        self._idle: dict[str, list[_BlockingLink]] = {}
        #: Connections that threads share, by address; always the same dictionary.
        self.shared_links: dict[str, SharedLink] = {}
        self._opening: set[str] = set()
        #: The threads that have their answers, of all shared connections.
        self.chain = WakeChain()
        self._process_id = os.getpid()
        self._is_closed = False

    def request(self, address: str, command: Command, timeout_s: float) -> Command:
        """Send a request and return its answer, whatever its code; `timeout_s` covers the connecting too.

        Raises ConnectFailed, ConnectionLost or RequestTimeout. Requests that the server sends meanwhile are
        answered with REQUEST_CODE_NOT_SUPPORTED, oneway ones are dropped: nobody listens here.
        """
        deadline = time.monotonic() + timeout_s
        command.opaque = next(self._opaques) & 0x7FFFFFFF
        with self._borrowed(address, deadline) as link:
            link.send(command, deadline)
            return link.answer(command.opaque, deadline)

    def request_all(self, address: str, commands: Sequence[Command], timeout_s: float) -> list[Command]:
        """Send requests one behind the other on one socket, and return their answers in that order.

        Nothing is read before all are written, so together they must fit into a socket's buffers: a server
        whose large answers nobody reads stops reading.

        Raises as `request` does, for all of them: some may have been carried out.
        """
        deadline = time.monotonic() + timeout_s
        for command in commands:
            command.opaque = next(self._opaques) & 0x7FFFFFFF
        with self._borrowed(address, deadline) as link:
            link.send_all(commands, deadline)
            # A server with threads answers in any order.
            missing = {command.opaque for command in commands}
            answers: dict[int, Command] = {}
            while missing:
                answer = link.next_answer(deadline)
                if answer.opaque in missing:
                    missing.discard(answer.opaque)
                    answers[answer.opaque] = answer
        return [answers[command.opaque] for command in commands]

    def request_any(self, asked: Sequence[tuple[str, Command]], timeout_s: float) -> Command:
        """Send requests, each to an address, and return the first answer that comes, whatever its code.

        The sockets of the others are closed. Raises as `request` does, when the first to end is no answer.
        """
        deadline = time.monotonic() + timeout_s
        addresses = ", ".join(address for address, _ in asked)
        waiting: dict[_BlockingLink, tuple[str, int]] = {}
        try:
            with selectors.DefaultSelector() as selector:
                for address, command in asked:
                    command.opaque = next(self._opaques) & 0x7FFFFFFF
                    taken = self._take(address, deadline)
                    waiting[taken] = address, command.opaque
                    taken.send(command, deadline)
                    selector.register(taken, selectors.EVENT_READ, taken)
                while True:
                    for key, _ in selector.select(_left(deadline, addresses)):
                        link: _BlockingLink = key.data
                        address, opaque = waiting[link]
                        answer = link.received_answer(opaque, deadline)
                        if answer is not None:
                            del waiting[link]
                            self._put_back(address, link)
                            return answer
        finally:
            for link in waiting:
                link.close()

    def oneway(self, address: str, command: Command, timeout_s: float) -> None:
        """Send a request that wants no answer; returns when the system has taken its bytes."""
        deadline = time.monotonic() + timeout_s
        command.opaque = next(self._opaques) & 0x7FFFFFFF
        command.flag |= CommandFlag.ONEWAY
        with self._borrowed(address, deadline) as link:
            link.send(command, deadline)

    def open_shared(
        self, address: str, timeout_s: float, take_answers: Callable[[Sequence[SharedLink]], bool]
    ) -> None:
        """Open the connection that threads share, unless there is one or somebody opens it; or leave it."""
        with self._lock:
            if self._is_closed or address in self.shared_links or address in self._opening:
                return
            self._opening.add(address)
        try:
            connection = self._connect(address, time.monotonic() + timeout_s)
            link = SharedLink(
                connection,
                address,
                frame_bytes_max=self._settings.frame_bytes_max,
                take_answers=take_answers,
                on_end=self._forget_shared,
                chain=self.chain,
            )
            with self._lock:
                if not self._is_closed:
                    self.shared_links[address] = link
                    return
            link.close()
        except NetworkError:
            # Whoever sends has its answer already; the next one may try again.
            return
        finally:
            self._opening.discard(address)

    def close(self) -> None:
        """Close the idle sockets; those in use are closed when their requests end."""
        self._after_fork()
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, {}
        for links in idle.values():
            for link in links:
                link.close()
        for shared in tuple(self.shared_links.values()):
            shared.close()

    @contextlib.contextmanager
    def _borrowed(self, address: str, deadline: float) -> "Iterator[_BlockingLink]":
        link = self._take(address, deadline)
        is_clean = False
        try:
            yield link
            is_clean = True
        finally:
            # After any error, an interrupt from the keyboard too, half an answer may be in the socket.
            if is_clean:
                self._put_back(address, link)
            else:
                link.close()

    def _take(self, address: str, deadline: float) -> "_BlockingLink":
        self._after_fork()
        while True:
            with self._lock:
                if self._is_closed:
                    raise ClientClosed("these links are closed; make new ones")
                links = self._idle.get(address)
                link = links.pop() if links else None
            if link is None:
                return self._open(address, deadline)
            if link.is_usable():
                return link
            link.close()

    def _put_back(self, address: str, link: "_BlockingLink") -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.setdefault(address, []).append(link)
                return
        link.close()

    def _forget_shared(self, link: SharedLink) -> None:
        if self.shared_links.get(link.address) is link:
            del self.shared_links[link.address]

    def _open(self, address: str, deadline: float) -> "_BlockingLink":
        connection = self._connect(address, deadline)
        return _BlockingLink(connection, address, self._settings.frame_bytes_max)

    def _connect(self, address: str, deadline: float) -> socket.socket:
        host, port = split_address(address)
        timeout_s = min(self._settings.connect_timeout_millis / 1000, _left(deadline, address))
        try:
            connection = socket.create_connection((host, port), timeout_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_hostname=host)
        except TimeoutError as error:
            raise ConnectFailed(f"no connection to {address} within {timeout_s:.1f} s") from error
        except OSError as error:
            if self._context is not None and is_of_tls(error):
                raise tls_failure(address, error) from error
            raise ConnectFailed(f"no connection to {address}: {error.strerror or error}") from error
        return connection

    def _after_fork(self) -> None:
        if self._process_id == os.getpid():
            return
        # The lock may have been held by a thread that does not exist here. Closing our copies of the parent's
        # sockets does not end its connections.
        self._lock = threading.Lock()
        idle, self._idle = self._idle, {}
        self._process_id = os.getpid()
        for links in idle.values():
            for link in links:
                link.forget()
        for shared in tuple(self.shared_links.values()):
            shared.forget()
        self.shared_links.clear()
        self.chain = WakeChain()


class _BlockingLink:
    """One socket with at most one request under way."""

    __slots__ = ("_address", "_connection", "_has_received", "_large", "_reader")

    def __init__(self, connection: socket.socket, address: str, frame_bytes_max: int) -> None:
        self._connection = connection
        self._address = address
        self._reader = CommandReader(frame_bytes_max)
        self._has_received = False
        #: Room for frames that are larger than what is received at once; it is kept for the next.
        self._large = bytearray()

    def is_usable(self) -> bool:
        """Return whether the server still has its end open, as far as one can see without asking it."""
        try:
            self._connection.settimeout(0.0)
            data = self._connection.recv(RECEIVE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        # What arrived between requests are the server's own: notifications, which nobody here waits for.
        self._reader.feed(data)
        return bool(data)

    def send(self, command: Command, deadline: float) -> None:
        """Write a command."""
        self._write(encode(command), deadline)

    def send_all(self, commands: Sequence[Command], deadline: float) -> None:
        """Write commands in one piece."""
        self._write(b"".join([encode(command) for command in commands]), deadline)

    def _write(self, frames: bytes, deadline: float) -> None:
        try:
            self._connection.settimeout(_left(deadline, self._address))
            self._connection.sendall(frames)
        except TimeoutError as error:
            raise RequestTimeout(f"{self._address} did not take the request in time") from error
        except OSError as error:
            raise ConnectionLost(
                f"the connection to {self._address} ended: {error.strerror or error}"
            ) from error

    def fileno(self) -> int:
        """Return the socket's number, so that it can be waited for."""
        return self._connection.fileno()

    def received_answer(self, opaque: int, deadline: float) -> Command | None:
        """Return the answer to `opaque` if it is whole by now; wait for nothing."""
        try:
            self._connection.settimeout(0.0)
            data = self._connection.recv(RECEIVE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None
        except OSError as error:
            raise ConnectionLost(
                f"the connection to {self._address} ended: {error.strerror or error}"
            ) from error
        if not data:
            raise ConnectionLost(f"{self._address} ended the connection before its answer")
        self._reader.feed(data)
        while True:
            try:
                command = self._reader.next_command()
            except RemoteProtocolError as error:
                raise ConnectionLost(f"{self._address} sent what is no command: {error}") from error
            if command is None or (command.is_response and command.opaque == opaque):
                return command
            if not command.is_response:
                self._turn_down(command, deadline)

    def answer(self, opaque: int, deadline: float) -> Command:
        """Read until the answer to `opaque`."""
        while True:
            answer = self.next_answer(deadline)
            if answer.opaque == opaque:
                return answer

    def next_answer(self, deadline: float) -> Command:
        """Read the next answer, to whatever request."""
        while True:
            try:
                command = self._reader.next_command()
            except RemoteProtocolError as error:
                raise ConnectionLost(f"{self._address} sent what is no command: {error}") from error
            if command is None:
                self._receive(deadline)
            elif command.is_response:
                return command
            else:
                self._turn_down(command, deadline)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def forget(self) -> None:
        """Let go of a connection that belongs to another process."""
        # Not `close`: a TLS socket would say goodbye on the parent's behalf.
        os.close(self._connection.detach())

    def _receive(self, deadline: float) -> None:
        missing = self._reader.missing_bytes
        if missing > RECEIVE_BYTES:
            self._receive_large(missing, deadline)
            return
        with self._explained():
            self._connection.settimeout(_left(deadline, self._address))
            data = self._connection.recv(RECEIVE_BYTES)
        if not data:
            is_first_of_tls = isinstance(self._connection, ssl.SSLSocket) and not self._has_received
            raise ConnectionLost(
                ended_after_handshake(self._address)
                if is_first_of_tls
                else f"{self._address} ended the connection before its answer"
            )
        if not self._has_received:
            self._has_received = True
            if data.startswith(ALERT):
                raise speaks_tls_only(self._address)
        self._reader.feed(data)

    def _receive_large(self, missing: int, deadline: float) -> None:
        """Receive the rest of a frame where it stays, instead of piece by piece: each would be copied."""
        begun, start = self._reader.pending
        at = len(begun) - start
        large, size = self._large, at + missing
        if len(large) < size:
            large.extend(bytes(size - len(large)))
        del large[size:]
        with memoryview(large) as view:
            view[:at] = memoryview(begun)[start:]
            while at < size:
                with self._explained():
                    self._connection.settimeout(_left(deadline, self._address))
                    count = self._connection.recv_into(view[at:])
                if not count:
                    raise ConnectionLost(f"{self._address} ended the connection before its answer")
                at += count
        self._reader.skip_to(len(begun))
        self._reader.feed(large)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise RequestTimeout(f"{self._address} did not answer in time") from error
        except ssl.SSLError as error:
            raise tls_failure(self._address, error) from error
        except OSError as error:
            raise ConnectionLost(
                f"the connection to {self._address} ended: {error.strerror or error}"
            ) from error

    def _turn_down(self, request: Command, deadline: float) -> None:
        if request.is_oneway:
            return
        answer = Command(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            opaque=request.opaque,
            flag=CommandFlag.RESPONSE,
            remark=f" request type {request.code} not supported",
            serializer=request.serializer,
        )
        self.send(answer, deadline)


def _left(deadline: float, address: str) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise RequestTimeout(f"{address} did not answer in time")
    return left
