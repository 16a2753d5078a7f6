"""Pauses of clients: from the first send without an answer to the next acknowledgement, and from
a message that is there to the next delivery.

Time in which nobody wanted anything is no pause.
"""

from dataclasses import dataclass, field

from pyromq.torture.history import History, HistoryEvent

SEND_OK = "SEND_OK"
#: Kinds that are there as soon as they are acknowledged, and all that are acknowledged one by one: a staged
#: message is with its batch, a request by its reply, and topics that come and go may be gone.
_AT_ONCE = frozenset({"plain", "batch", "compressed", "large", "ordered", "filtered"})
_ANSWERED = _AT_ONCE | {"delayed", "timed", "transaction", "failing"}


@dataclass(frozen=True, slots=True)
class WaitSpan:
    """A time in which somebody waited."""

    seconds: float = 0.0
    #: When it ended.
    until_s: float = 0.0
    who: str = ""


@dataclass(slots=True)
class Pauses:
    """The longest pause of any producer, and of any consumer group."""

    producer: WaitSpan = WaitSpan()
    consumer: WaitSpan = WaitSpan()
    _kinds: dict[object, tuple[str, str]] = field(default_factory=dict)
    _sending: dict[str, float] = field(default_factory=dict)
    _groups: dict[str, set[str]] = field(default_factory=dict)
    _waiting: dict[str, dict[object, float]] = field(default_factory=dict)
    _delivered_at_s: dict[str, float] = field(default_factory=dict)
    #: (group, number): some messages arrive before their answer does.
    _delivered: set[tuple[str, object]] = field(default_factory=set)

    def see(self, event: HistoryEvent) -> None:
        """Take in what happens."""
        fields = event.fields
        match event.kind:
            case "subscribe" if fields.get("tags") is None and fields.get("above") is None:
                self._groups.setdefault(str(fields["topic"]), set()).add(str(fields["group"]))
            case "send" if fields.get("what") in _ANSWERED:
                self._kinds[fields["number"]] = str(fields.get("what")), str(fields.get("topic"))
                self._sending.setdefault(event.actor, event.at_s)
            case "ack" if fields.get("status") == SEND_OK:
                self._acknowledge(event)
            case "deliver":
                self._deliver(event)
            case "stopped":
                # Whoever waits for an answer to the last does not send again.
                for actor, since_s in self._sending.items():
                    self._take_producer(WaitSpan(event.at_s - since_s, event.at_s, actor))
                self._sending.clear()

    def _take_producer(self, pause: WaitSpan) -> None:
        self.producer = _longer(self.producer, pause)

    def _acknowledge(self, event: HistoryEvent) -> None:
        since_s = self._sending.pop(event.actor, event.at_s)
        self._take_producer(WaitSpan(event.at_s - since_s, event.at_s, event.actor))
        kind, topic = self._kinds.get(event.fields["number"], ("", ""))
        if kind in _AT_ONCE:
            for group in self._groups.get(topic, ()):
                if (group, event.fields["number"]) in self._delivered:
                    continue
                self._waiting.setdefault(group, {})[event.fields["number"]] = event.at_s

    def _deliver(self, event: HistoryEvent) -> None:
        group = str(event.fields["group"])
        waiting = self._waiting.get(group, {})
        if waiting:
            since_s = max(next(iter(waiting.values())), self._delivered_at_s.get(group, 0.0))
            self.consumer = _longer(self.consumer, WaitSpan(event.at_s - since_s, event.at_s, group))
        waiting.pop(event.fields["number"], None)
        self._delivered_at_s[group] = event.at_s
        self._delivered.add((group, event.fields["number"]))


def _longer(one: WaitSpan, other: WaitSpan) -> WaitSpan:
    return other if other.seconds > one.seconds else one


def pauses_of(history: History) -> Pauses:
    """Return the longest pauses of a run."""
    pauses = Pauses()
    for event in history.events:
        pauses.see(event)
    return pauses
