"""The model of everything that a run promised, on a page: which messages a reader may see.

    acknowledged           is there, once, and every group that subscribes to it gets it
    answer lost, not OK    may be there, once for each try
    delayed                is not there before its time
    recalled               is not there
    half message           is there if its local transaction was committed, and else is not
    staged                 is there with its whole batch when that was published, and not when it was aborted

A message is known by its number. The model is fed with the events of a history, at once or one by one.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from pyromq.name_rules import RETRY_PREFIX
from pyromq.torture.history import HistoryEvent
from pyromq.torture.stage import Promises, Topology

SEND_OK = "SEND_OK"
COMMIT = "COMMIT_MESSAGE"
#: Tries after which the failing group gives a message up.
TRIES_MAX = 2
#: ASYNC_FLUSH may lose the last half second before a power cut; a slow disk makes it more.
UNSYNCED_S = 10.0


class Showing(Enum):
    """The visibility of a message to readers."""

    MUST = auto()
    MAY = auto()
    NEVER = auto()


@dataclass(slots=True)
class Sent:
    """One message, and whatever was said of it."""

    number: int
    kind: str
    topic: str
    at_s: float
    event: HistoryEvent
    acks: list[HistoryEvent] = field(default_factory=list)
    #: Sends, of which more than one is made of a message that is sent again on purpose; and their tries.
    sends: int = 1
    tries: int = 0
    #: When its local transaction ended, and how; None: nobody decided.
    decided: str | None = None
    decided_at_s: float = 0.0
    recall_began_s: float | None = None
    recalled_at_s: float | None = None
    #: When it was replayed, if it was a dead letter.
    replayed_at_s: float | None = None

    @property
    def ok_acks(self) -> list[HistoryEvent]:
        """The answers that promise something."""
        return [ack for ack in self.acks if ack.fields["status"] == SEND_OK]

    @property
    def due_s(self) -> float:
        """Before this nobody may see it."""
        return self.at_s + _number(self.event, "delay_s", 0.0)

    def __str__(self) -> str:
        """Return it for a person."""
        said = "; ".join(
            f"{ack.fields['status']} {ack.fields['place']} offset {ack.fields['offset']} by "
            f"{ack.fields['host']} at {ack.at_s:.3f} s"
            for ack in self.acks
        )
        return f"message {self.number} ({self.kind}, sent at {self.at_s:.3f} s; {said or 'not acknowledged'})"


@dataclass(slots=True)
class PromisedSubscription:
    """The messages of a topic that a group is to get."""

    group: str
    topic: str
    tags: list[str] | None
    above: int | None

    def wants(self, sent: Sent) -> bool:
        """Return whether a message is for this group."""
        if sent.topic != self.topic:
            return False
        if self.tags is not None and sent.event.fields.get("tag") not in self.tags:
            return False
        return self.above is None or _number(sent.event, "weight", 0) > self.above


@dataclass(slots=True)
class PromisedBatch:
    """A staged batch."""

    name: str
    numbers: list[int]
    is_published: bool = False
    is_aborted: bool = False
    #: Somebody tried to publish it.
    is_tried: bool = False
    published_at_s: float = 0.0


class Model:
    """Everything that was said in a run, by message."""

    def __init__(self, promises: Promises) -> None:
        self.promises = promises
        self.sent: dict[int, Sent] = {}
        self.subscriptions: list[PromisedSubscription] = []
        self.batches: dict[str, PromisedBatch] = {}
        self._batch_of: dict[int, PromisedBatch] = {}
        #: Deliveries of each message to each group, whether they ended well or not.
        self.deliveries: dict[str, dict[int, list[HistoryEvent]]] = {}
        #: Acknowledgements of popped messages that brokers took, by group and message.
        self.ended: dict[tuple[str, int], list[HistoryEvent]] = {}
        #: Popped messages that somebody tried to acknowledge: they may be over, and need not come again.
        self.ending: set[tuple[str, int]] = set()
        #: What was known first to stand at a queue's offset: it was shown to a group, or acknowledged.
        self._first_at: dict[tuple[str, int], int] = {}
        #: Where copies of a message stand in the end that were stored because it failed.
        self._retried_at: dict[int, list[tuple[str, int]]] = {}
        #: Not before this is there nothing more to come.
        self.quiet_from_s = 0.0
        self.faults: list[HistoryEvent] = []
        self._seen = 0

    # What is promised ---------------------------------------------------------------------------------

    def showing(self, sent: Sent) -> Showing:
        """Say whether a message is to be seen in its topic."""
        if sent.kind == "transaction":
            return self._showing_of_half(sent)
        if sent.number in self._batch_of:
            return _showing_of_staged(self._batch_of[sent.number], sent)
        if sent.recalled_at_s is not None:
            return Showing.NEVER
        if sent.recall_began_s is not None or not sent.ok_acks:
            return Showing.MAY
        return Showing.MUST

    def _showing_of_half(self, sent: Sent) -> Showing:
        if sent.decided != COMMIT:
            return Showing.NEVER
        return Showing.MUST if sent.ok_acks else Showing.MAY

    def copies_max(self, sent: Sent) -> int:
        """Return how often a message may stand in its topic: once for each try whose answer was lost."""
        if sent.number in self._batch_of:
            return 1
        first = self.sent.get(int(_number(sent.event, "batch", sent.number)), sent)
        return max(1, first.tries, sent.sends)

    @property
    def has_power_cuts(self) -> bool:
        """Whether a machine lost power in the run."""
        return any("power" in name_of(fault) for fault in self.faults)

    @property
    def shows_what_may_be_lost(self) -> bool:
        """Whether a reader may see what is not there later.

        Under SYNC_FLUSH a master shows what its disk has; a slave that does not take its place shows what it
        copied, which the master's disk may not have yet.
        """
        is_slave_ahead = self.promises.topology is Topology.MASTER_SLAVE and self.has_power_cuts
        return self.is_lossy or is_slave_ahead

    @property
    def is_lossy(self) -> bool:
        """Whether something acknowledged may be gone at all."""
        return self.may_be_lost(0.0) or any(self.may_be_lost(fault.at_s) for fault in self.faults)

    def may_be_lost(self, at_s: float) -> bool:
        """Return whether something acknowledged at a time may be gone, by the settings of the run.

        ASYNC_FLUSH may lose what it had just acknowledged before a power cut, ASYNC_MASTER what its slave had
        not yet when it took over.
        """
        promises = self.promises
        if promises.topology is Topology.FAILOVER and not promises.is_sync_master and self.faults:
            return True
        if promises.is_sync_flush:
            return False
        cuts = (fault.at_s for fault in self.faults if "power" in name_of(fault))
        return any(cut_s - UNSYNCED_S <= at_s <= cut_s + UNSYNCED_S for cut_s in cuts)

    def said_at_s(self, sent: Sent) -> float:
        """Return when the last word came that promises a message to be seen, or not to be."""
        if sent.number in self._batch_of:
            return self._batch_of[sent.number].published_at_s
        words = [ack.at_s for ack in sent.ok_acks] + [sent.decided_at_s, sent.recalled_at_s or 0.0]
        return max(words, default=sent.at_s)

    def wanted(self) -> list[tuple[PromisedSubscription, Sent]]:
        """Return what groups must get."""
        return [
            (subscription, sent)
            for sent in self.sent.values()
            if self.showing(sent) is Showing.MUST
            for subscription in self.subscriptions
            if subscription.wants(sent)
        ]

    def missing(self) -> list[tuple[PromisedSubscription, Sent]]:
        """Return what groups must get and have not got."""
        return [pair for pair in self.wanted() if not self.is_through(pair[0].group, pair[1])]

    def is_through(self, group: str, sent: Sent) -> bool:
        """Return whether a group is done with a message, or has given it up, and has what was replayed."""
        deliveries = self.deliveries.get(group, {}).get(sent.number, ())
        # One that was replayed and failed again to its end came again, too.
        from_s = sent.replayed_at_s or 0.0
        if any(is_last_try(event) and event.at_s >= from_s for event in deliveries):
            return True
        if (group, sent.number) in self.ending:
            return True
        return any(event.fields["done"] for event in deliveries) or self._is_passed(sent)

    def _is_passed(self, sent: Sent) -> bool:
        """Return whether another message stood at the offset of this one before, and a group passed it there.

        That is so where messages may be lost: what is lost frees its offsets, and a group that read them
        passes those who get them next. A group with a filter passes what it was not shown, too.
        """
        places = [*map(_place_of, sent.acks), *self._retried_at.get(sent.number, ())]
        return self.shows_what_may_be_lost and any(
            self._first_at.get(place, sent.number) != sent.number for place in places
        )

    def undecided(self) -> list[Sent]:
        """Return half messages whose producer will decide when it is asked."""
        return [
            sent
            for sent in self.sent.values()
            if sent.decided is None
            and sent.ok_acks
            and str(sent.event.fields.get("fate", "")).endswith("-later")
        ]

    # What happened ------------------------------------------------------------------------------------

    def see_all(self, events: list[HistoryEvent]) -> None:
        """Take in what of these events was not seen before."""
        for event in events[self._seen :]:
            self.see(event)
        self._seen = len(events)

    def see(self, event: HistoryEvent) -> None:
        """Take in one event."""
        look = getattr(self, f"_see_{event.kind}", None)
        if look is not None:
            look(event)

    def _see_send(self, event: HistoryEvent) -> None:
        number = int(_number(event, "number", -1))
        again = self.sent.get(number)
        if again is not None:
            again.sends += 1
            return
        fields = event.fields
        self.sent[number] = Sent(number, str(fields["what"]), str(fields["topic"]), event.at_s, event)
        self.quiet_from_s = max(self.quiet_from_s, self.sent[number].due_s)

    def _see_try(self, event: HistoryEvent) -> None:
        if (sent := self._of(event)) is not None:
            sent.tries += 1

    def _see_ack(self, event: HistoryEvent) -> None:
        if (sent := self._of(event)) is not None:
            sent.acks.append(event)
            self._first_at.setdefault(_place_of(event), sent.number)

    def _see_decide(self, event: HistoryEvent) -> None:
        if (sent := self._of(event)) is not None:
            sent.decided, sent.decided_at_s = str(event.fields["state"]), event.at_s

    def _see_recall(self, event: HistoryEvent) -> None:
        if (sent := self._of(event)) is not None:
            sent.recall_began_s = event.at_s

    def _see_recalled(self, event: HistoryEvent) -> None:
        if (sent := self._of(event)) is not None:
            sent.recalled_at_s = event.at_s

    def _see_recall_refused(self, event: HistoryEvent) -> None:
        # Over a fault it may be the answer to the second of two tries, of which the first was lost.
        if (sent := self._of(event)) is not None and not self.faults:
            sent.recall_began_s = None

    def _see_replayed(self, event: HistoryEvent) -> None:
        if (sent := self._of(event)) is not None:
            sent.replayed_at_s = event.at_s

    def _see_subscribe(self, event: HistoryEvent) -> None:
        fields = event.fields
        tags, above = fields.get("tags"), fields.get("above")
        self.subscriptions.append(
            PromisedSubscription(
                str(fields["group"]),
                str(fields["topic"]),
                [str(tag) for tag in tags] if isinstance(tags, list) else None,
                above if isinstance(above, int) else None,
            )
        )

    def _see_deliver(self, event: HistoryEvent) -> None:
        group, number = str(event.fields["group"]), int(_number(event, "number", -1))
        self.deliveries.setdefault(group, {}).setdefault(number, []).append(event)
        self._first_at.setdefault(_place_of(event), number)

    def _see_ending(self, event: HistoryEvent) -> None:
        self.ending.add((str(event.fields["group"]), int(_number(event, "number", -1))))

    def _see_ended(self, event: HistoryEvent) -> None:
        group, number = str(event.fields["group"]), int(_number(event, "number", -1))
        self.ended.setdefault((group, number), []).append(event)

    def _see_log(self, event: HistoryEvent) -> None:
        """Note the copies in a retry topic: their offsets, too, may have been another's that is lost."""
        place, messages = str(event.fields["place"]), event.fields["messages"]
        if not place.startswith(RETRY_PREFIX) or not isinstance(messages, list):
            return
        for message in messages:
            assert isinstance(message, list)
            self._retried_at.setdefault(int(str(message[1])), []).append((place, int(str(message[0]))))

    def _see_fault(self, event: HistoryEvent) -> None:
        self.faults.append(event)

    def _see_batch(self, event: HistoryEvent) -> None:
        numbers = event.fields["numbers"]
        assert isinstance(numbers, list)
        batch = PromisedBatch(str(event.fields["name"]), [int(str(number)) for number in numbers])
        self.batches[batch.name] = batch
        self._batch_of.update(dict.fromkeys(batch.numbers, batch))

    def _see_publish(self, event: HistoryEvent) -> None:
        self.batches[str(event.fields["name"])].is_tried = True

    def _see_published(self, event: HistoryEvent) -> None:
        batch = self.batches[str(event.fields["name"])]
        batch.is_published, batch.published_at_s = True, event.at_s

    def _see_aborted(self, event: HistoryEvent) -> None:
        self.batches[str(event.fields["name"])].is_aborted = True

    def _of(self, event: HistoryEvent) -> Sent | None:
        return self.sent.get(int(_number(event, "number", -1)))


def name_of(fault: HistoryEvent) -> str:
    """Return what a fault is; the stages have names of their own."""
    return str(fault.fields.get("fault") or fault.fields.get("what") or "")


def is_last_try(delivery: HistoryEvent) -> bool:
    """Return whether a delivery made a message a dead letter; what is popped comes again for ever."""
    return (
        "until_s" not in delivery.fields
        and not delivery.fields["done"]
        and _number(delivery, "times", 0) >= TRIES_MAX
    )


def _showing_of_staged(batch: PromisedBatch, _sent: Sent) -> Showing:
    if batch.is_published:
        return Showing.MUST
    return Showing.MAY if batch.is_tried and not batch.is_aborted else Showing.NEVER


def _place_of(event: HistoryEvent) -> tuple[str, int]:
    """Return the queue and the offset that an event tells of."""
    return str(event.fields["place"]), int(_number(event, "offset", -1))


def _number(event: HistoryEvent, name: str, otherwise: float) -> float:
    value = event.fields.get(name)
    return value if isinstance(value, int | float) else otherwise
