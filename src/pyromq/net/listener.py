"""Accepts plain and TLS connections on one port: each is looked at before its protocol is chosen."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from pyromq.config.settings import NetSettings
from pyromq.net.link import Link
from pyromq.net.tls import wants_tls

TLS_HANDSHAKE_S_MAX = 10.0
#: After accept failed (no file descriptors left, say) it would fail again at once.
ACCEPT_PAUSE_S = 0.5

_log = logging.getLogger("pyromq.net")


class PeekingListener:
    """Listens on a bound socket, with the face of `asyncio.Server`."""

    def __init__(
        self,
        listening: socket.socket,
        new_link: Callable[[], Link],
        context: ssl.SSLContext,
        settings: NetSettings,
    ) -> None:
        self._listening = listening
        self._new_link = new_link
        self._context = context
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
                await loop.connect_accepted_socket(
                    self._new_link,
                    connection,
                    ssl=self._context,
                    ssl_handshake_timeout=TLS_HANDSHAKE_S_MAX,
                )
            else:
                await loop.connect_accepted_socket(self._new_link, connection)
        except (OSError, TimeoutError) as error:
            # ssl.SSLError is an OSError: a handshake that fails ends here too.
            _log.warning("a connection ended before its first command: %s", error or "it was silent")
            connection.close()

    def _decided(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        self._undecided.discard(task)
        if task.cancelled():
            # Not in `_decide`: a task that is cancelled before its first step never runs.
            connection.close()
