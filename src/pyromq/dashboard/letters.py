"""Dead letters for a page: which there are, and replaying them, mended or as they are."""

import asyncio
import copy
from collections.abc import Mapping
from typing import Any, Final

from pyromq.client.aio.asking import Asker
from pyromq.client.client_session import Session
from pyromq.client.consumer.incoming import shown_body
from pyromq.client.dead_letter import (
    DeadLetter,
    DeadLetterFilter,
    ReplayOutcome,
    ReplayResult,
    ReplayTo,
    dead_letter_of,
    dead_letter_topic,
)
from pyromq.client.names import check_group
from pyromq.client.plans import dead_letter_plans
from pyromq.client.plans.admin.lookups import view_message
from pyromq.client.plans.replay_plans import Pace, ReplayRun, find_replay, replay
from pyromq.client.steps import Deadline, Plan
from pyromq.clock import SystemClock
from pyromq.dashboard import message_pages
from pyromq.dashboard.picture import Picture
from pyromq.errors import ConfigError, PyroError
from pyromq.model import ReceivedMessage

#: Dead letters of one page.
COUNT_MAX: Final = 50
#: Dead letters that are replayed at once.
REPLAY_MAX: Final = 500
#: Milliseconds to read a page of them, and to replay one.
_READ_MS: Final = 15_000
_REPLAY_MS: Final = 15_000

Shown = dict[str, Any]


async def listed(asker: Asker, query: Mapping[str, str]) -> Shown:
    """Return a group's dead letters, the oldest first, and which were replayed before."""
    group = message_pages.needed(query, "group")
    check_group(group)
    wanted = DeadLetterFilter(
        key=query.get("key") or None,
        tag=query.get("tag") or None,
        topic=query.get("topic") or None,
        message_id=query.get("id") or None,
        since_ms=message_pages.moment(query, "since") or 0,
        limit=COUNT_MAX + 1,
    )
    found = await asker.run(_read, group, wanted, timeout_ms=_READ_MS)
    shown = found[:COUNT_MAX]
    replays = await asyncio.gather(*(_replay_of(asker, letter) for letter in shown))
    rows = [row(letter, earlier) for letter, earlier in zip(shown, replays, strict=True)]
    last = shown[-1].died_at_ms if len(found) > COUNT_MAX else None
    return {"group": group, "rows": rows, "nextSince": last}


def _read(
    session: Session, group: str, wanted: DeadLetterFilter, _deadline: Deadline
) -> Plan[list[DeadLetter]]:
    reading = yield from dead_letter_plans.open_reading(session, group, wanted)
    found: list[DeadLetter] = []
    while (letter := (yield from dead_letter_plans.next_letter(session, reading))) is not None:
        found.append(letter)
    return found


async def _replay_of(asker: Asker, letter: DeadLetter) -> ReceivedMessage | None:
    try:
        return await asker.run(lambda session, _deadline: find_replay(session, letter))
    except PyroError:
        # Without an index of keys nobody can tell; a replay says so.
        return None


def row(letter: DeadLetter, earlier: ReceivedMessage | None) -> Shown:
    """Return a dead letter for a list."""
    return {
        **message_pages.row(letter.message),
        "placeId": letter.place_id,
        "topic": letter.topic,
        "died": letter.died_at_ms,
        "tries": letter.tries,
        "replayed": None if earlier is None else earlier.stored_at_ms,
        "body": message_pages.preview(shown_body(letter.message)),
        "properties": dict(sorted(letter.message.properties.items())),
    }


async def replay_all(asker: Asker, picture: Picture, order: Mapping[str, Any]) -> list[Shown]:
    """Replay dead letters by their ids, and return for each what became of it.

    `bodies` are the new bodies of those that were mended, by id.
    """
    group = str(order.get("group", ""))
    check_group(group)
    ids = order.get("ids")
    if not isinstance(ids, list) or not ids:
        raise ConfigError("choose at least one dead letter")
    if len(ids) > REPLAY_MAX:
        raise ConfigError(
            f"{len(ids)} dead letters are more than the {REPLAY_MAX} of one order; choose fewer"
        )
    bodies = order.get("bodies") or {}
    run = ReplayRun(
        to=ReplayTo.TOPIC if order.get("to") == "topic" else ReplayTo.GROUP,
        pace=Pace(None, SystemClock()),
        is_repeated=bool(order.get("again")),
        is_rehearsal=bool(order.get("rehearse")),
    )
    results = []
    for place_id in ids:
        results.append(await _replay_one(asker, picture, group, str(place_id), bodies.get(place_id), run))
    return results


async def _replay_one(
    asker: Asker, picture: Picture, group: str, place_id: str, body: str | None, run: ReplayRun
) -> Shown:
    try:
        letter = await _letter(asker, picture, group, place_id)
        if body is not None:
            letter = mended(letter, str(body).encode())
        result = await asker.run(
            lambda session, _deadline: replay(session, letter, run), timeout_ms=_REPLAY_MS
        )
    except PyroError as error:
        return {
            "id": place_id,
            "outcome": ReplayOutcome.FAILED,
            "error": str(error),
            "isMended": body is not None,
        }
    return {**_result(result), "isMended": body is not None}


async def _letter(asker: Asker, picture: Picture, group: str, place_id: str) -> DeadLetter:
    if message_pages.place_of(picture, place_id) is None:
        raise ConfigError(f"{place_id} is no dead letter of a broker of this cluster")

    message = await asker.run(view_message, place_id)
    if message.topic != dead_letter_topic(group):
        raise ConfigError(f"{place_id} is a message of {message.topic}, no dead letter of group {group}")
    return dead_letter_of(group, message, "")


def mended(letter: DeadLetter, body: bytes) -> DeadLetter:
    """Return a dead letter with another body; all else, and where it comes from, stays."""
    message = copy.copy(letter.message)
    message.body = body
    return DeadLetter(letter.group, message, letter.topic)


def _result(result: ReplayResult) -> Shown:
    return {
        "id": result.letter.place_id,
        "messageId": result.letter.message_id,
        "outcome": result.outcome,
        "destination": result.destination,
        "broker": None if result.queue is None else result.queue.broker_name,
        "queue": None if result.queue is None else result.queue.queue_id,
        "offset": result.queue_offset,
        "newId": result.offset_message_id,
        "at": result.stored_at_ms,
        "error": None if result.error is None else str(result.error),
    }
