"""Accepts plain and TLS connections on one port: each is looked at before its protocol is chosen.

With `tlsServerMode=enforcing` a plain connection is told so, by the alert that TLS has for it, and closed.
TLS that fails is logged with its cause; a client that tries again and again is logged once a minute.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from pyromq.config.choices import TlsServerMode
from pyromq.config.settings import NetSettings
from pyromq.net.address import join_address
from pyromq.net.link import Link
from pyromq.net.tls import wants_tls
from pyromq.net.tls_failures import PLAIN_IS_REFUSED, seen_by_server

TLS_HANDSHAKE_S_MAX = 10.0
#: After accept failed (no file descriptors left, say) it would fail again at once.
ACCEPT_PAUSE_S = 0.5
#: Seconds that a plain client has to read that TLS is wanted, and how many bytes of it are taken at a time.
REFUSAL_S_MAX = 2.0
REFUSED_BYTES_MAX = 64 * 1024
#: Seconds until the TLS of the same host is logged again, and how many hosts are remembered for it.
TELL_AGAIN_S = 60.0
TOLD_HOSTS_MAX = 1_000

_log = logging.getLogger("pyromq.net")


class PeekingListener:
    """Listens on a bound socket, with the face of `asyncio.Server`."""

    def __init__(
        self,
        listening: socket.socket,
        new_link: Callable[[], Link],
        context: ssl.SSLContext,
        settings: NetSettings,
        *,
        name: str,
    ) -> None:
        self._listening = listening
        self._new_link = new_link
        self._context = context
        self._name = name
        self._takes_plain = settings.tls_server_mode == TlsServerMode.PERMISSIVE
        #: When something was logged last of a peer's TLS, by its host.
        self._told_at: dict[str, float] = {}
        self._silence_s_max = settings.server_channel_max_idle_time_seconds
        self._undecided_max = settings.connections_max
        self._undecided: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Stop listening, and drop connections that have not said anything yet."""
        self._accepting.cancel()
        for task in self._undecided:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until nothing of it is left."""
        await asyncio.wait({self._accepting, *self._undecided})
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                _log.warning("a connection could not be accepted: %s", error)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            if len(self._undecided) >= self._undecided_max:
                connection.close()
                continue
            task = loop.create_task(self._decide(connection))
            self._undecided.add(task)
            task.add_done_callback(partial(self._decided, connection))

    async def _decide(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection.settimeout(0.0)
            async with asyncio.timeout(self._silence_s_max):
                is_tls = await wants_tls(connection)
            if is_tls:
                await self._begin_tls(connection)
            elif self._takes_plain:
                await loop.connect_accepted_socket(self._new_link, connection)
            else:
                await self._refuse_plain(connection)
        except (OSError, TimeoutError) as error:
            _log.warning("a connection ended before its first command: %s", error or "it was silent")
            connection.close()

    async def _begin_tls(self, connection: socket.socket) -> None:
        host, peer = _peer_of(connection)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._new_link,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=TLS_HANDSHAKE_S_MAX,
            )
        except OSError as error:
            # ssl.SSLError is an OSError, and so is a timeout.
            self._tell(host, seen_by_server(peer, error))
            connection.close()

    async def _refuse_plain(self, connection: socket.socket) -> None:
        """Say that TLS is wanted, so that the client can say so too; one that closes first has its wish."""
        host, peer = _peer_of(connection)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(REFUSAL_S_MAX):
                # Bytes that nobody took would end the connection before the alert is read.
                if not await loop.sock_recv(connection, REFUSED_BYTES_MAX):
                    return
                self._tell(
                    host,
                    f"{peer} does not use TLS, and tlsServerMode=enforcing takes nothing else: set useTLS "
                    "there (use_tls in Python, -Dtls.enable=true in Java), or tlsServerMode=permissive here",
                )
                await loop.sock_sendall(connection, PLAIN_IS_REFUSED)
                connection.shutdown(socket.SHUT_WR)
                while await loop.sock_recv(connection, REFUSED_BYTES_MAX):
                    pass
        except (OSError, TimeoutError):
            pass
        finally:
            connection.close()

    def _tell(self, host: str, what: str) -> None:
        now = asyncio.get_running_loop().time()
        if len(self._told_at) >= TOLD_HOSTS_MAX:
            self._told_at.clear()
        if now - self._told_at.get(host, -TELL_AGAIN_S) >= TELL_AGAIN_S:
            self._told_at[host] = now
            _log.warning("%s: %s", self._name, what)

    def _decided(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        self._undecided.discard(task)
        if task.cancelled():
            # Not in `_decide`: a task that is cancelled before its first step never runs.
            connection.close()


def _peer_of(connection: socket.socket) -> tuple[str, str]:
    """Return the host at the other end, and its address."""
    host, port = connection.getpeername()[:2]
    return host, join_address(host, port)
