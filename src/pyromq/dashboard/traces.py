"""The life of a message, as its trace tells it: messages of RMQ_SYS_TRACE_TOPIC, in Apache's format.

A trace message holds records that end with 0x02; their fields are separated by 0x01. The first says what
happened, the second when.

    Pub         region, group, topic, message id, tags, keys, store host, body bytes, ms, type, offset id, ok
    SubBefore   region, group, request id, message id, tries, keys
    SubAfter    request id, message id, cost ms, ok, keys, how it went, when, group
    EndTransaction …
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyromq.client.plans import admin
from pyromq.client.plans.admin import KeyQuery
from pyromq.dashboard.asking import Asker
from pyromq.dashboard.picture import Picture
from pyromq.errors import PyroError
from pyromq.model import ReceivedMessage

TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
_RECORD_END: Final = "\x02"
_FIELD_END: Final = "\x01"
_COUNT_MAX: Final = 64

Shown = dict[str, Any]


async def trace_of(asker: Asker, picture: Picture, message: ReceivedMessage) -> Shown:
    """Return what the trace says of a message, oldest first; and why there is none, where there is none."""
    if TRACE_TOPIC not in picture.topics:
        return {
            "events": [],
            "why": "this cluster keeps no trace: brokers with traceTopicEnable and clients that trace do",
        }
    try:
        found = await asker.run(admin.query_message, KeyQuery(TRACE_TOPIC, message.message_id, _COUNT_MAX))
    except PyroError as error:
        return {"events": [], "why": f"the trace could not be read: {error}"}
    events = [event for one in found for event in read_trace(one.body, message.message_id)]
    events.sort(key=lambda event: (event["at"], event["what"] == "SubAfter"))
    return {"events": events, "why": None if events else "nobody traced this message"}


def read_trace(body: bytes, message_id: str) -> list[Shown]:
    """Return what a trace message says of one message; what does not read is left out."""
    events = []
    for record in body.decode("utf-8", "replace").split(_RECORD_END):
        event = _event(record.split(_FIELD_END), message_id)
        if event is not None:
            events.append(event)
    return _with_groups(events)


def _event(fields: Sequence[str], message_id: str) -> Shown | None:
    at = fields[1] if len(fields) > 1 and fields[1].isdecimal() else "0"
    if fields[0] == "Pub" and len(fields) > 12 and fields[5] == message_id:
        is_good = fields[13 if len(fields) > 13 else 12] == "true"
        return {
            "what": "Pub",
            "at": int(at),
            "group": fields[3],
            "host": fields[14] if len(fields) > 14 else fields[8],
            "ms": _number(fields[10]),
            "ok": is_good,
        }
    if fields[0] == "SubBefore" and len(fields) > 6 and fields[5] == message_id:
        return {
            "what": "SubBefore",
            "at": int(at),
            "group": fields[3],
            "request": fields[4],
            "tries": _number(fields[6]),
            "host": fields[8] if len(fields) > 8 else "",
        }
    if fields[0] == "SubAfter" and len(fields) > 4 and fields[2] == message_id:
        return {
            "what": "SubAfter",
            "at": _number(fields[7]) if len(fields) > 7 else 0,
            "group": fields[8] if len(fields) > 8 else "",
            "request": fields[1],
            "ms": _number(fields[3]),
            "ok": fields[4] == "true",
        }
    if fields[0] == "EndTransaction" and len(fields) > 5 and fields[5] == message_id:
        return {"what": "EndTransaction", "at": int(at), "group": fields[3], "state": fields[-2], "ok": True}
    return None


def _with_groups(events: Iterable[Shown]) -> list[Shown]:
    """Return the events in which the end of a try has the group and the time of its beginning."""
    found = list(events)
    begins = {event["request"]: event for event in found if event["what"] == "SubBefore"}
    for event in found:
        begin = begins.get(event.get("request", ""))
        if event["what"] == "SubAfter" and begin is not None:
            event["group"] = event["group"] or begin["group"]
            event["at"] = event["at"] or begin["at"] + event["ms"]
    return found


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
