"""Plain sends: one by one, in batches, compressed, with delay levels, for failing consumers, by key."""

from pyromq.client.aio.producer import Producer
from pyromq.errors import PyroError
from pyromq.torture.workload.arrangement import (
    ALWAYS,
    DELAYED,
    FAILING,
    LEVELS_S,
    ORDERED,
    PLAIN,
    POPPED,
    TRIES_MAX,
)
from pyromq.torture.workload.scribe import MessageDraft, Scribe
from pyromq.torture.workload.workload_plan import WorkloadKind
from pyromq.wire.java_hash import java_hash

_ACTOR = "sender"
_KEYS = ("red", "green", "blue")


_KINDS = {
    WorkloadKind.PLAIN: PLAIN,
    WorkloadKind.BATCH: PLAIN,
    WorkloadKind.COMPRESSED: PLAIN,
    WorkloadKind.FILTERED: PLAIN,
    WorkloadKind.DELAYED: DELAYED,
    WorkloadKind.FAILING: FAILING,
    WorkloadKind.POPPED: POPPED,
}
#: How often the failing group fails a message before it is done: never, once, twice, or always.
_FAILURES = (0, 1, TRIES_MAX, ALWAYS)


class PlainSends:
    """A client that sends plain messages, batches, delayed messages, and such as consumers fail."""

    name = _ACTOR

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe

    async def main(self) -> None:
        """Send until the load ends."""
        scribe = self._scribe
        kinds = [kind for kind in _KINDS if scribe.plan.has(kind)]
        rates = [1 / scribe.plan.pauses_s[kind] for kind in kinds]
        async with scribe.producer(_ACTOR) as producer:
            while await scribe.wait(scribe.chance.expovariate(sum(rates))):
                kind = scribe.chance.choices(kinds, rates)[0]
                if kind is WorkloadKind.BATCH:
                    await self._send_batch(producer)
                else:
                    await scribe.send(_ACTOR, producer, self._draft(kind))
            await scribe.wait_for_end()

    def _draft(self, kind: WorkloadKind) -> MessageDraft:
        chance = self._scribe.chance
        # Beyond 4 KiB a client compresses; half of it is noise, so that something is left.
        filling = chance.randbytes(chance.randrange(200))
        if kind is WorkloadKind.COMPRESSED:
            filling = chance.randbytes(chance.randrange(100, 3_000)) + b"again and again " * 500
        draft = self._scribe.draft(kind, _KINDS[kind], filling)
        if kind is WorkloadKind.DELAYED:
            level = chance.randint(1, len(LEVELS_S))
            draft.message.delay_level = level
            draft.fields |= {"delay_s": LEVELS_S[level - 1], "is_delayed": True}
        elif kind is WorkloadKind.FAILING:
            draft.fields["failures"] = self._scribe.failures[draft.number] = chance.choice(_FAILURES)
        return draft

    async def _send_batch(self, producer: Producer) -> None:
        scribe = self._scribe
        drafts = [self._draft(WorkloadKind.BATCH) for _ in range(scribe.chance.randint(2, 6))]
        for draft in drafts:
            draft.fields["batch"] = drafts[0].number
            scribe.note_send(_ACTOR, draft)
        try:
            result = await producer.send_batch([draft.message for draft in drafts])
        except PyroError as error:
            for draft in drafts:
                scribe.note_failure(_ACTOR, draft.number, error)
            return
        for at, draft in enumerate(drafts):
            scribe.note_ack(_ACTOR, draft.number, result, at)


class OrderedSends:
    """A client that sends the messages of a key one after the other, to the key's own queue."""

    name = "orderer"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe

    async def main(self) -> None:
        """Send until the load ends."""
        scribe = self._scribe
        async with scribe.producer(self.name) as producer:
            queues = scribe.queues[ORDERED]
            while await scribe.pause(WorkloadKind.ORDERED):
                key = scribe.chance.choice(_KEYS)
                queue = queues[abs(java_hash(key)) % len(queues)]
                draft = scribe.draft(WorkloadKind.ORDERED, ORDERED, key=key)
                await scribe.send(self.name, producer, draft, queue=queue)
            await scribe.wait_for_end()
