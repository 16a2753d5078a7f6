"""Finds queues that do not move: a listener hangs, a message always fails, or a member does not pull."""

from collections.abc import Iterator, Sequence
from typing import Final

from pyromq.doctor.checks.check import Check, SurveyPart
from pyromq.doctor.checks.group_check import refusing
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.group_seen import GroupSeen
from pyromq.doctor.motion import Still, UnfetchedQueue, has_patience, still_queues, unread_queues
from pyromq.doctor.stacks import Thread, listening_thread
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import counted, lasted, lines, place_of, some_of
from pyromq.model import MessageQueue

#: Milliseconds after which a listener counts as hanging and not as slow, as in RocketMQ's consumerStatus.
HANGS_MS: Final = 60_000


def listeners(survey: Survey) -> Iterator[Finding]:
    """Find queues that stood still during the watch, and the members that have them."""
    for group in survey.groups.seen.values():
        yield from _of_still_queues(survey, group)
        yield from _of_unread_queues(survey, group)
    silent = [
        (group, client_id, failure)
        for group in survey.groups.seen.values()
        # The check of lag reports silent members of broadcasting groups: only they know their offsets.
        if group.is_clustering
        for client_id, failure in sorted(group.latest.silent.items())
    ]
    if silent:
        yield _silent(survey, silent)


def _of_still_queues(survey: Survey, group: GroupSeen) -> Iterator[Finding]:
    """Report the queues whose first message was not finished, one finding for each member and cause."""
    still = [one for one in still_queues(group, survey.groups) if survey.scope.concerns(one.queue.topic)]
    for client_id in sorted({one.client_id for one in still}):
        own = [one for one in still if one.client_id == client_id]
        if hanging := [one for one in own if not one.is_busy]:
            yield _hanging(survey, group, hanging)
        if failing := [one for one in own if one.is_busy and one.is_orderly]:
            yield _failing(survey, group, failing)
        if stuck := [one for one in own if one.is_busy and not one.is_orderly]:
            yield _stuck(survey, group, stuck)


def _of_unread_queues(survey: Survey, group: GroupSeen) -> Iterator[Finding]:
    """Report the queues that their members did not fetch from, one finding for each member and cause."""
    # The check of groups reports brokers that refuse the pulls of a group.
    refused = refusing(survey, group)
    unread = [
        one
        for one in unread_queues(group, survey.groups)
        if one.queue.broker_name not in refused
        and (not one.is_locked or not has_patience(group, one.queue, survey.groups, one.client_id))
    ]
    for client_id in sorted({one.client_id for one in unread}):
        own = [one for one in unread if one.client_id == client_id]
        if locked := [one for one in own if one.is_locked]:
            yield _unread(survey, group, locked)
        if unlocked := [one for one in own if not one.is_locked]:
            yield _unlocked(survey, group, unlocked)


def _hanging(survey: Survey, group: GroupSeen, queues: Sequence[Still]) -> Finding:
    for_ms = max(one.for_ms for one in queues)
    client_id = queues[0].client_id
    thread = listening_thread(group.stacks.get(client_id, ""), group.name)
    whose = "the application" if queues[0].is_polled else "the listener"
    message = (
        f"{whose} of {_who(group, client_id)} has finished nothing for {lasted(for_ms / 1_000)}, with "
        f"{counted(sum(one.in_hand for one in queues), 'message')} in hand: {some_of(_heads(queues), 3)}"
    )
    return Finding(
        Severity.PROBLEM if for_ms >= HANGS_MS else Severity.WARNING,
        f"group {group.name}",
        message,
        "what is in these queues waits, and no other member may take it while this one is there"
        if group.is_clustering
        else "this member gets nothing more of these queues; the others go on, for each reads all",
        lines(
            f"see {'below' if thread is None else 'above'} where it is, and give what it waits for a time "
            "limit; all its threads:",
            f"pyromq admin consumerStatus -g {group.name} -i {client_id} -s{survey.at}",
            "to restart the member helps for now: what it has comes again"
            + (", at another member" if group.is_clustering else ""),
        ),
        _facts(group, queues) | _stack_facts(group, client_id, thread),
        shown=_shown(thread),
    )


def _failing(survey: Survey, group: GroupSeen, queues: Sequence[Still]) -> Finding:
    first = queues[0]
    return Finding(
        Severity.WARNING,
        f"group {group.name}",
        f"the listener of {_who(group, first.client_id)} gets the same message again and again, in order: "
        f"{some_of(_heads(queues), 3)}",
        "it fails each time, and the messages behind it wait",
        lines(
            "see the message, and why it fails in the log of the consumer",
            _message_at(first.queue, first.head) + survey.at,
            "to go on behind it, once it may be lost:",
            f"pyromq group reset {group.name} -t {first.queue.topic} --to {first.head + 1} "
            f"--queue {place_of(first.queue)}{survey.at}",
        ),
        _facts(group, queues),
    )


def _stuck(survey: Survey, group: GroupSeen, queues: Sequence[Still]) -> Finding:
    first = queues[0]
    thread = listening_thread(group.stacks.get(first.client_id, ""), group.name)
    return Finding(
        Severity.WARNING,
        f"group {group.name}",
        f"one message holds up {_who(group, first.client_id)} while later ones are finished: "
        f"{some_of(_heads(queues), 3)}",
        "progress is the first message that is not finished: when the member ends, all behind it come again, "
        "and it fetches no more once it has too much in hand",
        lines(
            "see the message, and where its listener is",
            _message_at(first.queue, first.head) + survey.at,
            f"pyromq admin consumerStatus -g {group.name} -i {first.client_id} -s{survey.at}",
        ),
        _facts(group, queues) | _stack_facts(group, first.client_id, thread),
        shown=_shown(thread),
    )


def _unread(survey: Survey, group: GroupSeen, queues: Sequence[UnfetchedQueue]) -> Finding:
    first = queues[0]
    count = sum(one.end - one.reached for one in queues)
    places = [f"{_place(one.queue)} from offset {one.reached}" for one in queues]
    forbidding = sorted(
        name
        for name in {one.queue.broker_name for one in queues}
        if name in group.configs and not group.configs[name].consume_enable
    )
    if forbidding:
        cause = f"group {group.name} is switched off at {some_of(forbidding)} (consumeEnable=false)"
        steps = ["switch it on:", f"pyromq group create {group.name} --enabled{survey.at}"]
    else:
        cause = "it is suspended, or its pulls fail"
        steps = [
            "resume it (consumer.resume()), or look for failed pulls in its log; what it says of itself:",
            f"pyromq admin consumerStatus -g {group.name} -i {first.client_id}{survey.at}",
        ]
    return Finding(
        Severity.WARNING,
        f"group {group.name}",
        f"{_who(group, first.client_id)} does not fetch the {counted(count, 'message')} of "
        f"{counted(len(queues), 'queue')}: {some_of(places, 3)}",
        f"it has these queues, so nobody else reads them; {cause}"
        if group.is_clustering
        else f"the others go on, for each reads all; {cause}",
        lines(steps),
        _unread_facts(group, queues) | {"forbidding": forbidding},
    )


def _unlocked(survey: Survey, group: GroupSeen, queues: Sequence[UnfetchedQueue]) -> Finding:
    first = queues[0]
    return Finding(
        Severity.PROBLEM if any(one.end > one.reached for one in queues) else Severity.WARNING,
        f"group {group.name}",
        f"{_who(group, first.client_id)} consumes in order and does not hold the locks of "
        f"{counted(len(queues), 'queue')}: {some_of([_place(one.queue) for one in queues])}",
        "without the lock it may not read them: another client holds it, one that left without a word, or "
        "one of another application with a group of this name",
        lines(
            "a lock that is not renewed ends after a minute; if it does not, see who else is in the group:",
            f"pyromq group members {group.name}{survey.at}",
        ),
        _unread_facts(group, queues),
    )


def _silent(survey: Survey, silent: Sequence[tuple[GroupSeen, str, str]]) -> Finding:
    group, client_id, failure = silent[0]
    whose = [_who(group, client_id) for group, client_id, _ in silent]
    return Finding(
        Severity.NOTE,
        f"group {group.name}" if len(silent) == 1 else counted(len(silent), "member"),
        f"{whose[0]} does not say what it does: {failure}"
        if len(silent) == 1
        else f"{counted(len(silent), 'member')} do not say what they do: {some_of(whose, 3)}",
        "what they read is not known; a client whose loop is blocked by its listener cannot answer either",
        f"pyromq admin consumerStatus -g {group.name} -i {client_id}{survey.at}",
        {
            "members": [
                {"group": group.name, "client": client_id, "failure": failure}
                for group, client_id, failure in silent
            ]
        },
    )


# Words ------------------------------------------------------------------------------------------------


def _who(group: GroupSeen, client_id: str) -> str:
    address = group.latest.address(client_id)
    return f"member {client_id} of group {group.name}" + (f", at {address}," if address else "")


def _place(queue: MessageQueue) -> str:
    return f"{queue.topic} {place_of(queue)}"


def _heads(queues: Sequence[Still]) -> list[str]:
    return [f"{_place(one.queue)} at offset {one.head}" for one in queues]


def _message_at(queue: MessageQueue, offset: int) -> str:
    return f"pyromq message at {queue.topic} {place_of(queue)} {offset}"


def _shown(thread: Thread | None) -> tuple[str, ...]:
    if thread is None:
        return ()
    also = f" and {thread.count - 1} others" if thread.count > 1 else ""
    return f"thread {thread.name}{also}:", *(f"  {call}" for call in thread.shown)


def _facts(group: GroupSeen, queues: Sequence[Still]) -> dict[str, object]:
    rows = [_row(one.queue, one.head) | {"in_hand": one.in_hand, "for_ms": one.for_ms} for one in queues]
    return _member_facts(group, queues[0].client_id) | {"queues": rows}


def _stack_facts(group: GroupSeen, client_id: str, thread: Thread | None) -> dict[str, object]:
    return {
        "thread": None if thread is None else {"name": thread.name, "calls": list(thread.calls)},
        "stacks": group.stacks.get(client_id, ""),
    }


def _unread_facts(group: GroupSeen, queues: Sequence[UnfetchedQueue]) -> dict[str, object]:
    rows = [_row(one.queue, one.reached) | {"messages": one.end - one.reached} for one in queues]
    return _member_facts(group, queues[0].client_id) | {"queues": rows}


def _member_facts(group: GroupSeen, client_id: str) -> dict[str, object]:
    return {"group": group.name, "client": client_id, "address": group.latest.address(client_id)}


def _row(queue: MessageQueue, offset: int) -> dict[str, object]:
    return {"topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id, "offset": offset}


LISTENERS = Check(
    "listeners",
    "queues that do not move: listeners that hang, with their stack",
    listeners,
    SurveyPart.GROUPS | SurveyPart.MOTION,
)
