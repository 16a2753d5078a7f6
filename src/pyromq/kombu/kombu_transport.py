"""A connection of kombu: its clients, and the waking of whoever drains events.

What arrives is put into a channel's inbox on the clients' loop. One byte in a pair of sockets says so: to
`drain_events`, which waits for it, or to the hub of a Celery worker, which watches it beside its pool.
"""

import select
import socket
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from kombu.transport import virtual

from pyromq.errors import NetworkError, NoRoute, PyroError, ServiceNotAvailable, SystemBusy
from pyromq.kombu.kombu_channel import Channel
from pyromq.kombu.kombu_clients import KombuClients, TransportTerms, must_start
from pyromq.model import MessageQueue
from pyromq.release import VERSION

DEFAULT_PORT = 9876


class Transport(virtual.Transport):
    """RocketMQ as kombu's broker: `pyromq://HOST:PORT` of the name server; several are joined by `;`."""

    Channel = Channel
    default_port: Any = DEFAULT_PORT
    driver_type = "rocketmq"
    driver_name = "pyromq"
    #: Without a pause: a byte wakes who waits.
    polling_interval: Any = None
    connection_errors: Any = (
        *virtual.Transport.connection_errors,
        *(NetworkError, NoRoute, ServiceNotAvailable, SystemBusy, OSError),
    )
    channel_errors: Any = (*virtual.Transport.channel_errors, PyroError)
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset(["direct", "topic", "fanout"])
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self._connection = client
        self.polling_interval = None
        #: By queue: whether it is temporary; and where the shared exchanges ended when it was bound to them.
        self.temporary: dict[str, bool] = {}
        self.places: dict[str, dict[str, dict[MessageQueue, int]]] = {}
        self._clients: KombuClients | None = None
        self._woken: socket.socket | None = None
        self._waker: socket.socket | None = None

    @property
    def clients(self) -> KombuClients:
        """The clients of this connection."""
        if self._clients is None:
            self._clients = KombuClients(
                TransportTerms.of(_name_server(self._connection), self._connection.transport_options)
            )
        return self._clients

    def establish_connection(self) -> Any:
        """Look for a broker, and open the first channel."""
        must_start(self.clients)
        if self._woken is None:
            self._woken, self._waker = socket.socketpair()
            self._woken.settimeout(0)
            self._waker.settimeout(0)
        return super().establish_connection()

    def close_connection(self, connection: Any) -> None:
        """Close the channels and the clients."""
        super().close_connection(connection)
        clients, self._clients = self._clients, None
        if clients is not None:
            clients.close()
        for end in (self._waker, self._woken):
            if end is not None:
                end.close()
        self._woken = self._waker = None

    def wake(self) -> None:
        """Have events drained, from any thread."""
        waker = self._waker
        if waker is None:
            return
        try:
            waker.send(b"\0")
        except OSError:
            return  # full: it is awake; or closed

    def drain_events(self, connection: Any, timeout: float | None = None, **kwargs: Any) -> None:
        """Deliver one message; raise socket.timeout when none came in time."""
        end = None if timeout is None else monotonic() + timeout
        while not self._deliver_one():
            left = None if end is None else end - monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            if self._woken is None:
                raise ConnectionError("this connection is closed; make a new one")
            select.select([self._woken], [], [], left)
            self._drain()

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Have a worker's hub deliver what arrives."""
        loop.add_reader(self._woken, self._on_woken)
        # For what arrived, or was bound, before anybody watched.
        self.wake()

    def unregister_from_event_loop(self, connection: Any, loop: Any) -> None:
        """Leave the hub."""
        if self._woken is not None:
            loop.remove(self._woken)

    def driver_version(self) -> str:
        """The version of PyroMQ."""
        return VERSION

    def _on_woken(self) -> None:
        self._drain()
        while self._deliver_one():
            pass

    def _deliver_one(self) -> bool:
        return any(channel.deliver() for channel in tuple(self.channels))

    def _drain(self) -> None:
        if self._woken is None:
            return
        try:
            while self._woken.recv(4_096):
                pass
        except BlockingIOError:
            return


def _name_server(client: Any) -> str:
    """Return the name servers of a connection's URL, and of its alternates."""
    addresses = [f"{client.hostname or 'localhost'}:{client.port or DEFAULT_PORT}"]
    for url in client.alt or ():
        parts = urlsplit(url if "://" in url else f"//{url}")
        addresses.append(f"{parts.hostname or 'localhost'}:{parts.port or DEFAULT_PORT}")
    return ";".join(dict.fromkeys(addresses))
