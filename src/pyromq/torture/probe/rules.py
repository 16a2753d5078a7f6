"""Rules for a probe's record; each message that breaks one is told.

Each rule is a function of its own that returns complaints; `judge` runs them all. With asynchronous
replication acknowledged messages may be lost when a master is, but only from its end, and only the youngest;
how many is counted.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pyromq.torture.probe.probe_record import Final, ProbeRecord, Queue, Send, SendFate


@dataclass(frozen=True, slots=True)
class ProbePromise:
    """The promises of this run."""

    is_synchronous: bool = True
    #: Asynchronous: how long before its master's last answer a lost message may have been acknowledged.
    unshipped_s_max: float = 0.0


@dataclass(slots=True)
class ProbeFindings:
    """The broken rules, and the lost messages."""

    broken: list[str] = field(default_factory=list)
    #: Acknowledged and not there at the end; with synchronous replication each is a broken promise.
    lost: list[Send] = field(default_factory=list)
    masters: int = 0


def judge(record: ProbeRecord, final: Final, promise: ProbePromise) -> ProbeFindings:
    """Check everything."""
    found = ProbeFindings(broken=list(record.complaints))
    places = final.places()
    found.lost = [send for send in record.acknowledged() if send.number not in places]
    found.masters = len({final.epoch_at(stored.position) for _, _, stored in places.values()})
    lost = {send.number for send in found.lost}
    if promise.is_synchronous:
        found.broken += (f"lost: message {_told(send)} is not in the final log" for send in found.lost)
    else:
        found.broken += _unbounded_losses(record, final, promise, found.lost)
    for rule in (_holes, _repeats, _never_sent, _one_node_an_epoch):
        found.broken += rule(record, final)
    # With asynchronous replication a place that was lost may be given again, and may have been read.
    found.broken += _places_given_twice(record, final, set() if promise.is_synchronous else lost)
    if promise.is_synchronous:
        found.broken += _reads_that_were_taken_back(record, final)
    found.broken += _out_of_order(record, final)
    found.broken += _two_masters(record, final)
    return found


def _told(send: Send) -> str:
    return (
        f"{send.number} ({send.queue[0]}/{send.queue[1]} offset {send.offset} at {send.position}, node "
        f"{send.node}, {send.sent_at:.3f}–{send.ended_at:.3f} s)"
    )


def _holes(_record: ProbeRecord, final: Final) -> Iterator[str]:
    for queue, messages in final.queues.items():
        missing = sorted(set(range(max(messages, default=-1) + 1)) - set(messages))
        if missing:
            yield f"gap: {queue} has no offsets {missing[:5]} ({len(missing)} of them)"


def _repeats(_record: ProbeRecord, final: Final) -> Iterator[str]:
    seen: dict[int, tuple[Queue, int]] = {}
    for queue, messages in final.queues.items():
        for offset, stored in sorted(messages.items()):
            before = seen.setdefault(stored.number, (queue, offset))
            if before != (queue, offset):
                yield f"repeated: message {stored.number} is at {before} and at {(queue, offset)}"


def _never_sent(record: ProbeRecord, final: Final) -> Iterator[str]:
    for queue, messages in final.queues.items():
        for offset, stored in messages.items():
            send = record.sends.get(stored.number)
            if send is None or send.queue != queue:
                yield f"made up: {queue} offset {offset} holds message {stored.number}, not sent there"


def _one_node_an_epoch(_record: ProbeRecord, final: Final) -> Iterator[str]:
    nodes: dict[int, set[int]] = defaultdict(set)
    for messages in final.queues.values():
        for stored in messages.values():
            nodes[final.epoch_at(stored.position)].add(stored.node)
    for epoch, several in sorted(nodes.items()):
        if len(several) > 1:
            yield f"two masters: epoch {epoch} was written by the nodes {sorted(several)}"


def _places_given_twice(record: ProbeRecord, final: Final, lost: set[int]) -> Iterator[str]:
    """An offset of a queue, and a place in the log, belong to one message in all that anybody was told."""
    offsets: dict[tuple[Queue, int], int] = {}
    positions: dict[int, int] = {}
    for queue, messages in final.queues.items():
        for offset, stored in messages.items():
            offsets[queue, offset] = stored.number
            positions[stored.position] = stored.number
    for send in record.acknowledged():
        if send.number in lost:
            continue
        other = offsets.setdefault((send.queue, send.offset), send.number)
        if other != send.number:
            yield f"given twice: {send.queue} offset {send.offset} to {other} and to {_told(send)}"
        other = positions.setdefault(send.position, send.number)
        if send.position >= 0 and other != send.number:
            yield f"given twice: position {send.position} to {other} and to {_told(send)}"


def _reads_that_were_taken_back(record: ProbeRecord, final: Final) -> Iterator[str]:
    for read in record.reads.values():
        stored = final.queues.get(read.queue, {}).get(read.offset)
        if stored is None or stored.number != read.number:
            now = "nothing" if stored is None else f"message {stored.number}"
            yield (
                f"taken back: message {read.number} was read at {read.queue} offset {read.offset} of node "
                f"{read.node} at {read.at:.3f} s, where {now} is at the end"
            )


def _out_of_order(record: ProbeRecord, final: Final) -> Iterator[str]:
    """Whoever is sent after another was acknowledged stands behind it; so does the next of a connection."""
    placed: dict[Queue, list[tuple[Send, int]]] = defaultdict(list)
    for number, (queue, offset, _) in final.places().items():
        if number in record.sends:
            placed[queue].append((record.sends[number], offset))
    for pairs in placed.values():
        yield from _against_time(pairs)
        yield from _against_connections(pairs)


def _against_time(pairs: list[tuple[Send, int]]) -> Iterator[str]:
    acknowledged = sorted(
        (pair for pair in pairs if pair[0].fate is SendFate.ACKNOWLEDGED), key=lambda pair: pair[0].ended_at
    )
    at = 0
    last: tuple[Send, int] | None = None
    for send, offset in sorted(pairs, key=lambda pair: pair[0].sent_at):
        while at < len(acknowledged) and acknowledged[at][0].ended_at < send.sent_at:
            last = acknowledged[at] if last is None or acknowledged[at][1] > last[1] else last
            at += 1
        if last is not None and offset < last[1]:
            yield f"out of order: {_told(send)} is at {offset}, before {_told(last[0])} that was first"


def _against_connections(pairs: list[tuple[Send, int]]) -> Iterator[str]:
    last: dict[int, tuple[Send, int]] = {}
    for send, offset in sorted(pairs, key=lambda pair: pair[0].number):
        before = last.get(send.connection)
        if before is not None and offset < before[1]:
            yield f"out of order: {_told(send)} is at {offset}, before {_told(before[0])} of its connection"
        last[send.connection] = send, offset


def _two_masters(record: ProbeRecord, final: Final) -> Iterator[str]:
    """A send that began when a later epoch had answered must not be acknowledged by an earlier one.

    What the log does not have any more has no epoch: it may be of any of its node that had begun by then.
    """
    places = final.places()
    epoch_of = {
        send.number: final.epoch_at(places[send.number][2].position)
        for send in record.acknowledged()
        if send.number in places
    }
    first_answer: dict[int, float] = {}
    for number, epoch in epoch_of.items():
        ended_at = record.sends[number].ended_at
        first_answer[epoch] = min(ended_at, first_answer.get(epoch, ended_at))
    for send in record.acknowledged():
        own = epoch_of.get(send.number, final.last_epoch_of(send.node, send.ended_at))
        later = [epoch for epoch, at in first_answer.items() if epoch > own and at < send.sent_at]
        if later:
            yield (
                f"two masters: {_told(send)} was acknowledged in epoch {own}, and sent when epoch "
                f"{max(later)} had answered at {first_answer[max(later)]:.3f} s"
            )


def _unbounded_losses(
    record: ProbeRecord, final: Final, promise: ProbePromise, lost: list[Send]
) -> Iterator[str]:
    """Asynchronous: a deposed master loses its end and nothing else, and only what was young.

    A connection does not outlive its broker's time as a master, so what came over one is of one reign.
    """
    places = final.places()
    highest: dict[int, Send] = {}
    last_answer: dict[int, float] = defaultdict(float)
    for send in record.acknowledged():
        last_answer[send.connection] = max(send.ended_at, last_answer[send.connection])
        before = highest.get(send.connection)
        if send.number in places and (before is None or before.position < send.position):
            highest[send.connection] = send
    for send in lost:
        survivor = highest.get(send.connection)
        if survivor is not None and survivor.position > send.position:
            yield f"lost from the middle: {_told(send)} is gone, and {_told(survivor)} behind it is there"
        age_s = last_answer[send.connection] - send.ended_at
        if age_s > promise.unshipped_s_max:
            yield (
                f"lost too old: {_told(send)} was acknowledged {age_s:.1f} s before its node's last answer; "
                f"{promise.unshipped_s_max:.1f} s are allowed"
            )
