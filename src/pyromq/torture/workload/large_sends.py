"""Large messages: one of 4 MiB, the largest that is legal, and answers that together are as large.

What a connection has to carry at a time is then beyond what a server lets wait for a slow reader: it stops
reading, and must begin again.
"""

import asyncio

from pyromq.client.aio.producer import Producer
from pyromq.client.aio.pull_consumer import PullConsumer
from pyromq.config.settings import KIB, MIB
from pyromq.errors import PyroError
from pyromq.model import MessageQueue, PullResult, SendResult
from pyromq.torture.workload.arrangement import BIG_PULLERS, LARGE
from pyromq.torture.workload.scribe import NUMBER_DIGITS, Scribe, told
from pyromq.torture.workload.workload_plan import WorkloadKind

_BODY_MAX = 4 * MIB
#: Number, kind and spaces before the filling.
_HEAD = NUMBER_DIGITS + 2 + len(WorkloadKind.LARGE)
_PIECE = 256 * KIB
_TOGETHER = 17


class LargeSends:
    """A client that sends large messages, and pulls what it sent on one connection."""

    name = "lifter"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe

    async def main(self) -> None:
        """Send until the load ends."""
        scribe, address = self._scribe, self._scribe.stage.namesrv_address
        # Noise does not compress; nobody need try.
        settings = scribe.settings(self.name, compress_msg_body_over_howmuch=2 * _BODY_MAX)
        producer = Producer("p-lifter", address, settings, hooks=(scribe.hook(self.name),))
        consumer = PullConsumer(BIG_PULLERS, address, scribe.settings(self.name), auto_commit=False)
        async with producer, consumer:
            is_one = False
            while await scribe.pause(WorkloadKind.LARGE):
                is_one = not is_one
                await (self._one if is_one else self._many)(producer, consumer)
            await scribe.wait_for_end()

    async def _one(self, producer: Producer, consumer: PullConsumer) -> None:
        queue = self._scribe.chance.choice(self._scribe.queues[LARGE])
        sent = await self._send(producer, queue, _BODY_MAX - _HEAD)
        if sent is not None:
            await self._lift(consumer, queue, [sent.queue_offset])

    async def _many(self, producer: Producer, consumer: PullConsumer) -> None:
        queue = self._scribe.chance.choice(self._scribe.queues[LARGE])
        sends = [await self._send(producer, queue, _PIECE - _HEAD) for _ in range(_TOGETHER)]
        await self._lift(consumer, queue, [sent.queue_offset for sent in sends if sent is not None])

    async def _send(self, producer: Producer, queue: MessageQueue, size: int) -> SendResult | None:
        scribe = self._scribe
        draft = scribe.draft(WorkloadKind.LARGE, LARGE, scribe.chance.randbytes(size))
        return await scribe.send(self.name, producer, draft, queue=queue)

    async def _lift(self, consumer: PullConsumer, queue: MessageQueue, offsets: list[int]) -> None:
        """Pull messages at once, and then ask something small on the same connection."""
        scribe, history = self._scribe, self._scribe.history
        began_s = scribe.stage.now_s()
        history.note("lift", self.name, offsets=[*offsets])
        try:
            pulls = [consumer.pull(queue, offset, count=1) for offset in offsets]
            pulled: list[PullResult] = await asyncio.gather(*pulls)
            for one in pulled:
                for message in one.messages:
                    scribe.note_delivery(self.name, BIG_PULLERS, message)
            await consumer.max_offset(queue)
        except PyroError as error:
            history.note("lift_failed", self.name, error=told(error))
        else:
            history.note("lifted", self.name, took_s=scribe.stage.now_s() - began_s)
