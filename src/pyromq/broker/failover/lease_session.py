"""A replica's lease at etcd, kept alive, and by it the lease of a master here.

A master may acknowledge until its lease can have run out at etcd, by this machine's clock. That is counted
from when a keep-alive was *sent*, for etcd cannot have counted from an earlier time, and a margin is taken
off for clocks that do not run equally fast. An answer that took long thus gives a lease that is nearly over.

A lease alone is not enough: etcd may let one live on whose keys it is just removing (etcd-io/etcd#20547). So
a keep-alive counts for a master only after a look at its key, which shows that it was not too late.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from pyromq.broker.durability.acknowledgement import Lease
from pyromq.broker.failover.etcd_client import EtcdClient
from pyromq.clock import Clock
from pyromq.errors import EtcdFailed

log = logging.getLogger(__name__)

#: Keep-alives in each lease time.
_BEATS = 4
#: The part of the lease time that is not used.
_MARGIN = 0.1


class LeaseSession:
    """One replica's lease. `on_change` is called when it is there, and when it is gone."""

    def __init__(
        self, etcd: EtcdClient, *, lease_s: int, clock: Clock, on_change: Callable[[], None]
    ) -> None:
        self._etcd = etcd
        self._clock = clock
        self._on_change = on_change
        self.lease_s = lease_s
        #: The lease's id at etcd, 0 when there is none.
        self.id = 0
        self._until = 0.0
        self._bound: Lease | None = None
        #: The key that lives with the lease while a master's lease is bound to it.
        self._key = ""
        self._task: asyncio.Task[None] | None = None
        #: Why etcd did not answer the last time, None if it did.
        self.trouble: EtcdFailed | None = None

    def start(self) -> None:
        """Begin to ask for a lease, and to keep it."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="keep the lease")

    async def close(self) -> None:
        """Stop, and give the lease back, so that nobody has to wait for its end."""
        await self.abandon()
        if self.id:
            with suppress(EtcdFailed):
                await self._etcd.revoke(self.id)
            self.id = 0

    async def abandon(self) -> None:
        """Stop, and leave the lease to run out, as a process that was killed does."""
        self.release()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    def bind(self, key: str) -> Lease:
        """Return a master's lease, which lives with this one, and with the key that was just put."""
        self.release()
        self._key = key
        self._bound = Lease(self._clock.monotonic, self._until)
        return self._bound

    def is_bound_to(self, lease: Lease) -> bool:
        """Return whether a master's lease still lives with this one."""
        return self._bound is lease

    def release(self) -> None:
        """End the master's lease, for good."""
        if self._bound is not None:
            self._bound.drop()
            self._bound = None

    async def _run(self) -> None:
        while True:
            began_at = asyncio.get_running_loop().time()
            try:
                await (self._keep() if self.id else self._begin())
            except EtcdFailed as error:
                self._note(error)
            else:
                self._note(None)
            spent_s = asyncio.get_running_loop().time() - began_at
            await asyncio.sleep(max(0.0, self.lease_s / _BEATS - spent_s))

    async def _begin(self) -> None:
        sent_at = self._clock.monotonic()
        self.id, ttl_s = await self._etcd.grant(self.lease_s)
        self._renew(sent_at, ttl_s)
        self._on_change()

    async def _keep(self) -> None:
        sent_at = self._clock.monotonic()
        ttl_s = await self._etcd.keep_alive(self.id)
        if ttl_s <= 0:
            self.is_gone()
        elif self._bound is None or await self._has_key():
            self._renew(sent_at, ttl_s)
        else:
            self.release()
            self._on_change()

    async def _has_key(self) -> bool:
        item = (await self._etcd.find(self._key)).items.get("")
        return item is not None and item.lease == self.id

    def is_gone(self) -> None:
        """Note that etcd does not know the lease any more; another is asked for at the next beat."""
        self.id = 0
        self.release()
        self._on_change()

    def _renew(self, sent_at: float, ttl_s: float) -> None:
        # etcd may grant more than was asked for; what was asked for is what others count on.
        self._until = sent_at + min(ttl_s, self.lease_s) * (1 - _MARGIN)
        if self._bound is not None:
            self._bound.renew(self._until)

    def _note(self, trouble: EtcdFailed | None) -> None:
        if trouble is not None and self.trouble is None:
            log.warning("%s; it is tried again, and nobody becomes master meanwhile", trouble)
            self._on_change()
        elif trouble is None and self.trouble is not None:
            log.info("etcd at %s answers again", self._etcd.shown)
        self.trouble = trouble
