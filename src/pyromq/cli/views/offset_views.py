"""A change of a group's progress, as it would be and as it was done, for people and for programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer

from pyromq.cli import output
from pyromq.cli.admin.command_runs import operating
from pyromq.cli.confirmation import confirm
from pyromq.cli.exit_status import FAILED, NotThere
from pyromq.cli.views.group_views import check_group
from pyromq.cli.views.listing import Listing
from pyromq.client.plans.admin.offset_changes import Move, Reset, Target, To
from pyromq.client.sync.admin import Admin
from pyromq.errors import NetworkError


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOptions:
    """The options of a reset."""

    group: str
    topic: str
    target: Target
    queues: Sequence[tuple[str, int]] = ()
    only_back: bool = False
    #: Tell the brokers only, whoever is connected.
    past_members: bool = False
    #: A group that no broker knows, and that has read nothing, may be a wrong name.
    warns_of_unknown: bool = False
    is_dry: bool = False
    is_yes: bool = True
    is_json: bool = False


def run_reset(chosen: ResetOptions, name_server: str) -> None:
    """Change a group's progress, or only show what would change; status 1 when a queue was not changed."""
    with operating(name_server) as admin:
        seen = admin.look_at_reset(
            chosen.group, chosen.topic, chosen.target, queues=chosen.queues, only_back=chosen.only_back
        )
        if chosen.warns_of_unknown and all(move.before is None for move in seen.moves):
            _warn_of_unknown(admin, chosen.group)
        if chosen.is_dry:
            shown(seen).show(is_json=chosen.is_json)
            return
        if not chosen.is_yes:
            shown(seen).show(is_json=False)
            confirm(f"Change the progress of {chosen.group} in {chosen.topic}?", is_yes=False)
        done = admin.reset_offsets(
            chosen.group,
            chosen.topic,
            chosen.target,
            queues=chosen.queues,
            only_back=chosen.only_back,
            past_members=chosen.past_members,
        )
    shown(done).show(is_json=chosen.is_json)
    for move in done.moves:
        if move.failure is not None:
            output.complain(f"{move.queue.broker_name} queue {move.queue.queue_id}: {move.failure}")
    if not done.is_whole:
        raise typer.Exit(FAILED)


def _warn_of_unknown(admin: Admin, group: str) -> None:
    """Say that a group is new to the brokers: it may be one that is to begin somewhere, or a wrong name."""
    try:
        check_group(admin, group)
    except (NotThere, NetworkError) as error:
        output.warn(str(error))


def shown(reset: Reset) -> Listing:
    """Return a change as a table: where the group is in each queue, where it will be or is now."""
    columns = [
        ("#brokerName", "broker"),
        ("#queueId", "queue"),
        ("#minOffset", "min_offset"),
        ("#brokerOffset", "max_offset"),
        ("#consumerOffset", "before"),
        ("#rollbackOffset", "after"),
        ("#skips", "skips"),
    ]
    if reset.is_done:
        columns.append(("#now", "now"))
    return Listing(columns, [move_record(move, is_done=reset.is_done) for move in reset.moves], _notes(reset))


def move_record(move: Move, *, is_done: bool) -> dict[str, Any]:
    """Return what happens to a queue, for programs."""
    return {
        "topic": move.queue.topic,
        "broker": move.queue.broker_name,
        "queue": move.queue.queue_id,
        "min_offset": move.first,
        "max_offset": move.last,
        "before": move.before,
        "after": move.after,
        "skips": move.skipped,
        "now": move.now,
        "is_done": is_done and move.failure is None,
        "failure": move.failure,
    }


def _notes(reset: Reset) -> list[str]:
    moves = reset.moves
    skipped = sum(max(move.skipped, 0) for move in moves)
    again = sum(max(-move.skipped, 0) for move in moves)
    count = sum(1 for move in moves if move.skipped)
    verb = "" if reset.is_done else "would "
    words = [f"{count} of {len(moves)} queues {verb}move"]
    words.append(
        f"{skipped:,} messages {verb}be skipped" if not reset.is_done else f"{skipped:,} messages are skipped"
    )
    words.append(f"{again:,} {verb}be read again" if not reset.is_done else f"{again:,} are read again")
    notes = ["; ".join(words)]
    members = sorted({client for clients in reset.members.values() for client in clients})
    who = "1 member" if len(members) == 1 else f"{len(members):,} members"
    is_or_are, was_or_were = ("is", "was") if len(members) == 1 else ("are", "were")
    if members and reset.query.past_members:
        notes.append(f"{who} {is_or_are} connected: restart the group, or it writes over this")
    elif members and reset.is_done:
        notes.append(f"{who} {was_or_were} told, to go on there when it has let go of its queues")
    elif members:
        notes.append(f"{who} {is_or_are} connected, and will be told: {', '.join(members)}")
    else:
        notes.append("nobody of the group is connected")
    return notes


def target_of(*, to: str, at_ms: int | None = None) -> Target:
    """Return the target that a word or a number says: first, last, or an offset."""
    if at_ms is not None:
        return Target(To.TIME, at_ms)
    if to in (To.FIRST, To.LAST):
        return Target(To(to))
    return Target(To.OFFSET, int(to))
