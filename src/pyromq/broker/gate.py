"""Which requests a broker may answer now: by its lease, and by how many replicas there are.

A master whose lease is over answers nothing: another may be master already. The lease is looked at when a
request comes, and once more when something was changed: an order to change a table may wait for a disk or a
name server longer than the lease, and what it changed is then lost. (Messages are vouched for by
`durability.py`.) A master with fewer replicas than `minInSyncReplicas` takes no messages, and serves
everything else.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pyromq.broker.route_facts import BrokerTable, OnSlave
from pyromq.broker.standing import Lease, no_longer_master
from pyromq.codes import ResponseCode
from pyromq.errors import ServiceNotAvailable
from pyromq.net.link import Link, Shortcut
from pyromq.net.routes import Answer, Handled, Request
from pyromq.wire.command import CommandReader


class Gate:
    """Says no to requests, and to the kernel's shortcut around them."""

    def __init__(self, lease: Lease, *, replica_count: Callable[[], int], replicas_min: int) -> None:
        self._lease = lease
        self._replica_count = replica_count
        self._replicas_min = replicas_min
        #: Set while a master hands over: it takes no more messages, and still serves the rest.
        self.is_handing_over = False

    def put_before(self, table: BrokerTable) -> None:
        """Let every request of a table pass here first."""
        table.guard(self._check_lease)
        table.guard(self._check_replicas, [route.code for route in table if route.writes])
        for route in table:
            if not route.writes and route.on_slave is not OnSlave.ANSWERS:
                table.by_code[int(route.code)] = replace(route, handle=self._vouching(route.handle))

    def around(self, shortcut: Shortcut | None) -> Shortcut | None:
        """Return a shortcut that is taken only where every request would pass."""
        if shortcut is None:
            return None

        def pass_through(link: Link, reader: CommandReader, answer_bytes_max: int) -> bool:
            return self.is_open and shortcut(link, reader, answer_bytes_max)

        return pass_through

    @property
    def why_shut(self) -> str | None:
        """Why no request may pass, None while the lease is held."""
        if self._lease.is_held:
            return None
        return "its lease is over, and was not renewed at etcd in time: another replica may be master"

    @property
    def why_no_messages(self) -> str | None:
        """Why no message may pass, None while messages may."""
        if self.is_handing_over:
            return "this master hands over to another replica"
        count = self._replica_count() if self._replicas_min > 1 else self._replicas_min
        if count < self._replicas_min:
            return (
                f"{count} of the group's brokers are in sync, and minInSyncReplicas={self._replicas_min} "
                "must be; start the others, or lower it"
            )
        return None

    @property
    def is_open(self) -> bool:
        """Whether every request may pass."""
        return (
            self._lease.is_held
            and not self.is_handing_over
            and (self._replicas_min <= 1 or self._replica_count() >= self._replicas_min)
        )

    def _vouching(self, handle: Callable[[Request[Any]], Handled]) -> Callable[[Request[Any]], Handled]:
        """Return a handler whose answer is given only while the lease is held."""

        async def when_done(handled: Awaitable[Answer | None]) -> Answer | None:
            return self._vouched(await handled)

        def call(request: Request[Any]) -> Handled:
            handled = handle(request)
            if handled is None or isinstance(handled, Answer):
                return self._vouched(handled)
            return when_done(handled)

        return call

    def _vouched(self, answer: Answer | None) -> Answer | None:
        if not self._lease.vouch():
            raise no_longer_master()
        return answer

    def _check_lease(self, _request: Request[Any]) -> None:
        if not self._lease.is_held:
            raise no_longer_master()

    def _check_replicas(self, _request: Request[Any]) -> None:
        if self.is_handing_over:
            raise no_longer_master()
        why = self.why_no_messages
        if why is not None:
            raise ServiceNotAvailable(ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: {why}")
