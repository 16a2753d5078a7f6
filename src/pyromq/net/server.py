"""Accept, read, dispatch, answer.

A `Server` listens on any number of addresses with one table of requests. Its limits are `NetSettings`':
connections over `connections_max` are closed as they come, silent ones after
`server_channel_max_idle_time_seconds`. Bytes that are no command end their connection with one log line and
touch no other.
"""

import asyncio
import logging
import socket
from collections.abc import Callable

from pyromq.clock import Clock
from pyromq.config.settings import NetSettings
from pyromq.episodes import Episode
from pyromq.errors import ListenFailed
from pyromq.net.link import Link, close_all
from pyromq.net.listener import PeekingListener
from pyromq.net.routes import Dispatcher, RequestTable
from pyromq.net.tls import server_context
from pyromq.net.turn import Turn

#: How long a closing server waits for answers under way, and again for peers to take what was written.
CLOSE_GRACE_S = 0.5
SWEEP_S_MAX = 5.0
#: Connections count as accepted again when this part of `connections_max` is open: at the limit itself each
#: connection that ends would be told.
ROOM_AGAIN = 0.9

_log = logging.getLogger("pyromq.net")


class Server:
    """Answers requests on one or more addresses.

    `on_link_closed` is called once for each connection that ends. `turn` has what happens at the end of each
    turn of the loop, after all commands of the turn were handled and before their answers are written.
    """

    def __init__(
        self,
        table: RequestTable,
        settings: NetSettings,
        *,
        clock: Clock,
        name: str,
        on_link_closed: Callable[[Link], None] | None = None,
        turn: Turn | None = None,
    ) -> None:
        #: In the order in which they came.
        self.links: dict[Link, None] = {}
        self._settings = settings
        self._clock = clock
        self._name = name
        self._on_link_closed = on_link_closed
        self._turn = turn or Turn(monotonic=clock.monotonic)
        self._dispatch = Dispatcher(table, name=name, requests_under_way_max=settings.requests_under_way_max)
        self._tls = server_context(settings)
        self._listeners: list[asyncio.Server | PeekingListener] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closing = False
        self._crowded = Episode(clock, name, "connections")

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen on an address and return it with its real port; may be called for several addresses.

        Raises ListenFailed when the address cannot be listened on.
        """
        listening = bound_socket(self._settings, host, port, name=self._name)
        address: tuple[str, int] = listening.getsockname()[:2]
        await self.serve(listening)
        return address

    async def serve(self, listening: socket.socket) -> None:
        """Accept the connections of a socket that listens; it is closed with the server."""
        loop = asyncio.get_running_loop()
        if self._tls is not None:
            self._listeners.append(
                PeekingListener(listening, self._new_link, self._tls, self._settings, name=self._name)
            )
        else:
            self._listeners.append(
                await loop.create_server(
                    self._new_link,
                    sock=listening,
                    backlog=self._settings.server_socket_backlog,
                )
            )
        if self._sweep is None:
            self._plan_sweep()

    async def close(self) -> None:
        """Stop listening, give answers under way a short grace, then end all connections."""
        self._is_closing = True
        if self._sweep is not None:
            self._sweep.cancel()
        for listener in self._listeners:
            listener.close()
        under_way = [future for link in self.links for future in link.under_way]
        under_way += [link.all_settled() for link in self.links if link.unsettled]
        if under_way:
            await asyncio.wait(under_way, timeout=CLOSE_GRACE_S)
            # The answers of what just ended are sent by callbacks that the loop runs next.
            await asyncio.sleep(0)
        await close_all(self.links, CLOSE_GRACE_S)
        for listener in self._listeners:
            await listener.wait_closed()
        self._listeners.clear()

    def close_idle(self) -> None:
        """End the connections that were silent too long."""
        idle_s_max = self._settings.server_channel_max_idle_time_seconds
        for link in tuple(self.links):
            if link.idle_s() < idle_s_max:
                continue
            if link.closed:
                # It was closed before, and its peer still has not taken the rest.
                link.abort()
            else:
                _log.info("%s: %s was silent for %d s; connection closed", self._name, link.peer, idle_s_max)
                link.close()

    def _new_link(self) -> Link:
        return Link(
            self._settings,
            turn=self._turn,
            clock=self._clock,
            on_request=self._dispatch,
            on_start=self._admit,
            on_end=self._forget,
        )

    def _admit(self, link: Link) -> None:
        self.links[link] = None
        if self._is_closing:
            link.abort()
        elif len(self.links) > self._settings.connections_max:
            self._crowded.begin(
                f"{len(self.links) - 1} are open and connectionsMax={self._settings.connections_max}; "
                f"{link.peer} is the first that was closed. Raise it, or find who opens so many"
            )
            link.abort()

    def _forget(self, link: Link) -> None:
        self.links.pop(link, None)
        if len(self.links) <= self._settings.connections_max * ROOM_AGAIN:
            self._crowded.end()
        if self._on_link_closed is not None:
            self._on_link_closed(link)

    def _plan_sweep(self) -> None:
        interval_s = min(SWEEP_S_MAX, self._settings.server_channel_max_idle_time_seconds / 4)
        self._sweep = asyncio.get_running_loop().call_later(interval_s, self._sweep_now)

    def _sweep_now(self) -> None:
        self.close_idle()
        self._plan_sweep()


def bound_socket(settings: NetSettings, host: str, port: int, *, name: str) -> socket.socket:
    """Return a socket that listens on an address as the settings want it; raise ListenFailed."""
    try:
        return listening_socket(
            host,
            port,
            backlog=settings.server_socket_backlog,
            send_bytes=settings.server_socket_snd_buf_size,
            receive_bytes=settings.server_socket_rcv_buf_size,
        )
    except OSError as error:
        raise ListenFailed(
            f"{name} cannot listen on {host}:{port}: {error.strerror or error}; "
            "choose another listenPort or bindAddress"
        ) from error


def listening_socket(
    host: str, port: int, *, backlog: int, send_bytes: int = 0, receive_bytes: int = 0
) -> socket.socket:
    """Return a socket that listens on an address; raise OSError when that cannot be.

    A loop that is given a host and not a socket would import the tables of international host names.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once (TCP_NODELAY) only on sockets that name their protocol.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.settimeout(0.0)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit the buffer sizes.
        for option, size in ((socket.SO_SNDBUF, send_bytes), (socket.SO_RCVBUF, receive_bytes)):
            if size:
                listening.setsockopt(socket.SOL_SOCKET, option, size)
        # An empty address would mean all of them.
        listening.bind((host or "127.0.0.1", port))
        listening.listen(backlog)
    except OSError:
        listening.close()
        raise
    return listening
