"""Moves the offsets of a group: first a preview, then the move, both by the plans of `pyromq group reset`."""

from collections.abc import Mapping
from typing import Any, Final

from pyromq.client.aio.asking import Asker
from pyromq.client.names import check_group, check_topic
from pyromq.client.plans.admin.offset_changes import (
    Move,
    Reset,
    ResetQuery,
    Target,
    To,
    look_at_reset,
    reset_offsets,
)
from pyromq.dashboard.changes import text_of, whole
from pyromq.errors import ConfigError

Shown = dict[str, Any]
#: Java's largest number.
_MOST: Final = 2**63 - 1


def read_order(order: Mapping[str, Any]) -> ResetQuery:
    """Return an order as it was sent; raise ConfigError with what is wrong."""
    group, topic = text_of(order, "group"), text_of(order, "topic")
    check_group(group)
    check_topic(topic)
    try:
        to = To(str(order.get("where", "")))
    except ValueError:
        raise ConfigError("say where to go on: first, last, time or offset") from None
    if to in (To.TIME, To.OFFSET) and to.value not in order:
        raise ConfigError(f"say the {to.value} to go on at")
    at = whole(order, to.value, 0, 0, _MOST) if to in (To.TIME, To.OFFSET) else 0
    return ResetQuery(group, topic, Target(to, at), [_queue(str(one)) for one in order.get("queues") or ()])


def _queue(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition(":")
    if not number.isdecimal():
        raise ConfigError(f"{text!r} is no queue; a queue is BROKER:NUMBER")
    return name, int(number)


async def preview(asker: Asker, query: ResetQuery) -> Shown:
    """Return what a move would do to each queue; nothing is moved."""
    seen = await asker.run(look_at_reset, query)
    changes = [move.after - move.before for move in seen.moves if move.before is not None]
    return {
        **_shown(seen),
        "again": sum(max(0, -change) for change in changes),
        "skipped": sum(max(0, change) for change in changes),
        "refusal": _refusal(seen),
    }


async def move(asker: Asker, query: ResetQuery) -> Shown:
    """Move the group, and return for each queue the old offset, the new one, and why it was not moved."""
    refusal = _refusal(await asker.run(look_at_reset, query))
    if refusal is not None:
        raise ConfigError(refusal)
    return _shown(await asker.run(reset_offsets, query))


def _shown(reset: Reset) -> Shown:
    members = _members(reset)
    how = (
        f"members are connected ({len(members)}): the brokers tell them, and they move within seconds"
        if members
        else f"nobody of {reset.query.group} is connected: the brokers note the new offsets"
    )
    return {
        "members": members,
        "moves": [
            {
                "broker": one.queue.broker_name,
                "id": one.queue.queue_id,
                "at": one.before,
                "to": one.after,
                "min": one.first,
                "max": one.last,
                "change": None if one.before is None else one.after - one.before,
                "failure": _failure(reset, one),
            }
            for one in reset.moves
        ],
        "how": how,
    }


def _members(reset: Reset) -> list[str]:
    return sorted({client_id for of_broker in reset.members.values() for client_id in of_broker})


def _refusal(reset: Reset) -> str | None:
    """Return why a group with members is not moved: Apache's brokers tell members a time, of all queues."""
    query, members = reset.query, _members(reset)
    if not members or (query.target.to is not To.OFFSET and not query.queues):
        return None
    return (
        f"group {query.group} has {len(members)} members connected, which would write their own offsets "
        "over it: stop them first, or choose all queues and first, last or a time"
    )


def _failure(reset: Reset, move: Move) -> str | None:
    if move.failure is not None or not reset.is_done or reset.is_online or move.now == move.after:
        return move.failure
    return f"the broker says {move.now}; is a member connected again?"
