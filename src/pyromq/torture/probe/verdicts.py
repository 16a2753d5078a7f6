"""From the events of probes to verdicts: each rule of `rules.py` under the promise that it belongs to."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from pyromq.torture.checker import PromiseVerdict
from pyromq.torture.history import History
from pyromq.torture.probe.probe import END, FINAL, READ, SEND, WRONG
from pyromq.torture.probe.probe_record import Final, LoggedMessage, ProbeRecord, Queue, Send, SendFate
from pyromq.torture.probe.rules import ProbeFindings, ProbePromise, judge
from pyromq.torture.stage import Promises, Topology

#: A promise → the first words of what breaks it.
PROMISES: Mapping[str, tuple[str, ...]] = {
    "a group's log has what its master acknowledged": ("lost", "lost too old", "lost from the middle"),
    "queues have no gap, nothing twice or made up": ("gap", "repeated", "made up", "damaged"),
    "an offset and a position are given once": ("given twice",),
    "what was read at any broker stays": ("taken back",),
    "messages stand in the order of their sends": ("out of order",),
    "one master at a time acknowledges": ("two masters",),
}


def judge_probes(history: History, promises: Promises, unshipped_s_max: float) -> list[PromiseVerdict]:
    """Return a verdict for each promise of a group's log; none when there was no probe."""
    records = _records(history)
    if not records:
        return []
    is_synchronous = promises.is_sync_master or promises.topology is not Topology.FAILOVER
    promise = ProbePromise(is_synchronous=is_synchronous, unshipped_s_max=unshipped_s_max)
    finals = _finals(history)
    broken: dict[str, list[str]] = defaultdict(list)
    for group, record in records.items():
        findings = judge(record, finals[group], promise) if group in finals else ProbeFindings()
        for text in findings.broken:
            broken[text.partition(":")[0]].append(f"{group}: {text}")
    acknowledged = sum(record.count(SendFate.ACKNOWLEDGED) for record in records.values())
    reads = sum(len(record.reads) for record in records.values())
    stored = sum(len(messages) for final in finals.values() for messages in final.queues.values())
    counts = [acknowledged, stored, acknowledged, reads, stored, acknowledged]
    return [
        PromiseVerdict(title, checked, [text for word in words for text in broken[word]])
        for (title, words), checked in zip(PROMISES.items(), counts, strict=True)
    ]


def lost_count(history: History, group: str) -> int:
    """Return how many acknowledged messages a group does not have; only ever some with ASYNC_MASTER."""
    record, final = _records(history)[group], _finals(history)[group]
    return len(judge(record, final, ProbePromise(is_synchronous=False)).lost)


def _records(history: History) -> dict[str, ProbeRecord]:
    records: dict[str, ProbeRecord] = defaultdict(ProbeRecord)
    sends: dict[object, Send] = {}
    for event in history.of(SEND, END, READ, WRONG):
        fields: dict[str, Any] = event.fields
        if event.kind == SEND:
            queue: Queue = fields["group"], fields["queue"]
            for number in fields["numbers"]:
                send = Send(number, queue, fields["node"], fields["connection"], event.at_s)
                records[fields["group"]].sends[number] = sends[number] = send
        elif event.kind == END:
            _end(event.at_s, fields, sends)
        elif event.kind == READ:
            queue = fields["group"], fields["queue"]
            for offset, number in fields["messages"]:
                records[fields["group"]].see(queue, offset, number, node=fields["node"], now=event.at_s)
        else:
            records[fields["group"]].complaints.append(fields["what"])
    return dict(records)


def _end(at_s: float, fields: dict[str, Any], sends: dict[object, Send]) -> None:
    for place, number in enumerate(fields["numbers"]):
        send = sends[number]
        send.ended_at, send.fate = at_s, SendFate(fields["fate"])
        if send.fate is SendFate.ACKNOWLEDGED:
            send.offset, send.position = fields["offset"] + place, fields["positions"][place]


def _finals(history: History) -> dict[str, Final]:
    finals: dict[str, Final] = {}
    for event in history.of(FINAL):
        fields: dict[str, Any] = event.fields
        group = fields["group"]
        finals[group] = final = Final(
            queues={
                (group, int(queue)): {
                    offset: LoggedMessage(number, position, node)
                    for offset, number, position, node in messages
                }
                for queue, messages in fields["queues"].items()
            },
            epochs=[(epoch, start) for epoch, start in fields["epochs"]],
            reigns={int(node): set(epochs) for node, epochs in fields["reigns"].items()},
        )
        final.not_before = _not_before(history, group, final)
    return finals


def _not_before(history: History, group: str, final: Final) -> dict[int, float]:
    """Return when each epoch certainly had not begun: an older one was seen then."""
    looks = [
        (float(event.fields["seen_until_s"]), int(event.fields["epoch"]))  # type: ignore[arg-type]
        for event in history.of("reign")
        if event.fields["group"] == group
    ]
    return {
        epoch: max((at for at, seen in looks if seen < epoch), default=0.0)
        for epochs in final.reigns.values()
        for epoch in epochs
    }
