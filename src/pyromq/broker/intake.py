"""How messages enter the store, whoever brings them: producers, retries, transactions, the broker itself.

Messages of some kinds wait elsewhere first: a delayed one in the schedule topic, half a transaction in the
half topic. Such a kind is told by a property. A *diversion* for that property changes the draft's topic and
queue, and notes the real ones in the properties.
"""

from collections.abc import Callable, Mapping, Sequence

from pyromq.codes import ResponseCode
from pyromq.errors import (
    CorruptRecord,
    DiskFull,
    MessageIllegal,
    MessageTooLarge,
    Refused,
    ServiceNotAvailable,
    StoreError,
)
from pyromq.store.store import Draft, MessageStore, Placed
from pyromq.wire import properties as names

#: Changes a draft, and the properties that it will be stored with, so that it waits in another topic.
#: Returns whether it did: a delay of level 0 is none.
Diversion = Callable[[Draft, dict[str, str]], bool]


class Intake:
    """Puts messages into the store; what the store refuses becomes RocketMQ's refusal.

    `diversions` are looked up by property name and applied in their order.
    """

    def __init__(
        self,
        store: MessageStore,
        *,
        message_bytes_max: int,
        diversions: Mapping[str, Diversion] | None = None,
    ) -> None:
        self._store = store
        self._message_bytes_max = message_bytes_max
        self._diversions = tuple((diversions or {}).items())

    @property
    def diverting(self) -> tuple[str, ...]:
        """The names of the properties that tell a kind of message which may wait elsewhere first."""
        return tuple(name for name, _ in self._diversions)

    def put(self, draft: Draft, properties: dict[str, str]) -> Placed:
        """Store a message; `properties` are what `draft.properties` was written from.

        Raises MessageIllegal when it is too large and ServiceNotAvailable when nothing can be stored.
        """
        self.divert(draft, properties)
        return self.put_as_is(draft)

    def divert(self, draft: Draft, properties: dict[str, str]) -> None:
        """Let a draft wait where messages of its kind wait, if it has one; see `put`."""
        for name, divert in self._diversions:
            if name in properties and divert(draft, properties):
                draft.properties = names.encode(properties)

    def put_as_is(self, draft: Draft) -> Placed:
        """Store a message where its draft says, whatever kind it is: its time or its fate has come."""
        try:
            return self._store.put(draft)
        except StoreError as error:
            raise self._refusal(error) from error

    def put_together(self, drafts: Sequence[Draft]) -> list[Placed]:
        """Store messages where their drafts say, with one write; either all are stored or none.

        Only a crash in the middle of the write can leave the first without the others.
        """
        try:
            return self._store.put_batch(drafts)
        except StoreError as error:
            raise self._refusal(error) from error

    def put_batch(self, drafts: Sequence[Draft], *, request_bytes: int) -> list[Placed]:
        """Store the messages of one request, all or none; they are never diverted."""
        if not drafts or request_bytes > self._message_bytes_max:
            raise self.too_large()
        try:
            return self._store.put_batch(drafts)
        except StoreError as error:
            raise self._refusal(error) from error

    def too_large(self) -> MessageIllegal:
        """Return the refusal of a message that is over the limits."""
        return MessageIllegal(
            ResponseCode.MESSAGE_ILLEGAL,
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {self._message_bytes_max}B, msg properties length limit 32KB.",
        )

    def _refusal(self, error: StoreError) -> Refused:
        if isinstance(error, MessageTooLarge | CorruptRecord):
            return self.too_large()
        if isinstance(error, DiskFull):
            why = f"the broker's disk is full [{error}], messages are put to the slave"
        else:
            why = f"the broker's disk failed [{error}], messages are put to the slave"
        return ServiceNotAvailable(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "service not available now. It may be caused by one of the following reasons: "
            f"{why}, message store has been shut down, etc.",
        )
