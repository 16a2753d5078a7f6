"""`pyromq admin consumerStatus`: a consumer group, for people and for programs."""

from datetime import datetime
from typing import Any

import msgspec

from pyromq.cli import output
from pyromq.cli.credentials import client_settings
from pyromq.cli.views.listing import Listing
from pyromq.client.plans.admin.consumer_status_plans import ConsumerStatus, MemberStatus, StatusQuery
from pyromq.client.sync.admin import Admin
from pyromq.codes import ResponseCode
from pyromq.errors import Refused
from pyromq.filter.agreement import want
from pyromq.wire.bodies.connection_bodies import SubscriptionConflict
from pyromq.wire.bodies.heartbeat_bodies import Subscription
from pyromq.wire.bodies.running_info import RunningState
from pyromq.wire.version_names import version_name

#: mqadmin's own words, which scripts look for.
SAME = "Same subscription in the same group of consumer"
DIFFERENT = "WARN: Different subscription in the same group of consumer!!!"
_START = "consumeFromWhere"


def run_consumer_status(query: StatusQuery, *, name_server: str, is_json: bool) -> bool:
    """Print what a group's brokers and members say, and return whether the members want the same."""
    with Admin(name_server, client_settings()) as admin:
        status = admin.consumer_status(
            query.group,
            client_id=query.client_id,
            broker_address=query.broker_address,
            with_stacks=query.with_stacks,
        )
    if query.client_id is not None:
        return _show_one(status, query.client_id, is_json=is_json)
    if is_json:
        output.say_json(_as_record(status))
    else:
        _print(status, with_stacks=query.with_stacks)
    return status.is_consistent


def _show_one(status: ConsumerStatus, client_id: str, *, is_json: bool) -> bool:
    found = [member for member in status.members if member.connection.client_id == client_id]
    if not found or found[0].state is None:
        raise Refused(
            ResponseCode.CONSUMER_NOT_ONLINE,
            (found[0].failure if found else None)
            or f"client {client_id} is not in group {status.group}; its members: "
            + ", ".join(member.connection.client_id for member in status.members),
        )
    if is_json:
        output.say_json(_member_record(found[0]))
    else:
        _print_state(found[0].state)
    return True


# For people -------------------------------------------------------------------------------------------


def _print(status: ConsumerStatus, *, with_stacks: bool) -> None:
    count = len(status.members)
    output.say(
        f"consumer group {output.paint(status.group, 'bold')}: {count} member{'s' * (count != 1)}, "
        f"{status.message_model}, {status.consume_type}"
    )
    if status.members:
        Listing(_MEMBER, [_row(member) for member in status.members]).show(is_json=False)
    for name, report in status.reports.items():
        _print_refused(name, report)
    for name, why in status.silent.items():
        output.warn(f"broker {name} did not answer: {why}")
    _print_verdict(status)
    for member in status.members if with_stacks else ():
        if member.state is not None and member.state.stacks:
            output.say(f"\n#{member.connection.client_id} jstack#\n{member.state.stacks}")


_MEMBER = (
    ("client id", "client_id"),
    ("address", "address"),
    ("language", "language"),
    ("version", "version"),
    ("queues", "queues"),
    ("subscriptions", "subscriptions"),
)


def _row(member: MemberStatus) -> dict[str, object]:
    connection, state = member.connection, member.state
    return {
        "client_id": connection.client_id,
        "address": connection.client_addr,
        "language": connection.language,
        "version": version_name(connection.version),
        "queues": "?" if state is None else len(state.queues),
        "subscriptions": (
            f"? ({member.failure})" if state is None else "; ".join(_wants(state.subscriptions))
        ),
    }


def _print_refused(broker_name: str, report: SubscriptionConflict) -> None:
    for member in report.refused:
        refused = output.paint("refused", "red")
        wants = "; ".join(member.subscriptions)
        output.say(f"  {member.client_id}  {member.client_addr}  {refused} by {broker_name}: {wants}")


def _print_verdict(status: ConsumerStatus) -> None:
    if status.is_consistent:
        output.say(output.paint(SAME, "green"))
    else:
        output.say(output.paint(DIFFERENT, "red"))
    if status.conflict is not None:
        output.say(f"  {status.conflict}")
    for name, report in status.reports.items():
        since = datetime.fromtimestamp(report.since / 1_000).isoformat(" ", "seconds")
        is_told = status.conflict is not None and report.difference == str(status.conflict)
        output.say(f"  {name} says so since {since}" + ("" if is_told else f": {report.difference}"))
    starts = status.told_apart_by(_START)
    if len(starts) > 1:
        said = "; ".join(f"{value}: {', '.join(clients)}" for value, clients in starts.items())
        output.say(f"note: members begin at different places with a queue the group never read ({said})")


def _print_state(state: RunningState) -> None:
    output.say("#Consumer Properties#")
    for line in output.columns([[name, state.properties[name]] for name in sorted(state.properties)]):
        output.say(f"  {line}")
    output.say("\n#Consumer Subscription#")
    for text in _wants(state.subscriptions):
        output.say(f"  {text}")
    output.say("\n#Consumer Offset#")
    rows = [["topic", "broker", "queue", "committed", "waiting", "locked", "last pull", "last consume"]]
    for queue, found in sorted(state.queues.items()):
        rows.append(
            [
                queue.topic,
                queue.broker_name,
                str(queue.queue_id),
                str(found.commit_offset),
                str(found.cached_msg_count),
                "yes" if found.locked else "no",
                _time(found.last_pull_timestamp),
                _time(found.last_consume_timestamp),
            ]
        )
    for line in output.columns(rows):
        output.say(f"  {line}")
    output.say("\n#Consumer RT&TPS#")
    rows = [["topic", "pull ms", "pulled/s", "consume ms", "done/s", "failed/s", "failed in an hour"]]
    for topic, rates in sorted(state.topics.items()):
        figures = (
            rates.pull_rt,
            rates.pull_tps,
            rates.consume_rt,
            rates.consume_ok_tps,
            rates.consume_failed_tps,
        )
        rows.append([topic, *(f"{figure:.2f}" for figure in figures), str(rates.consume_failed_msgs)])
    for line in output.columns(rows):
        output.say(f"  {line}")
    if state.stacks:
        output.say(f"\n#Consumer jstack#\n{state.stacks}")


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000).isoformat(" ", "seconds") if at_ms > 0 else "-"


def _wants(subscriptions: list[Subscription]) -> list[str]:
    return sorted(
        str(want(each.topic, each.sub_string, each.expression_type, is_class=each.class_filter_mode))
        for each in subscriptions
    )


# For programs -----------------------------------------------------------------------------------------


def _as_record(status: ConsumerStatus) -> dict[str, Any]:
    return {
        "group": status.group,
        "consume_type": status.consume_type,
        "message_model": status.message_model,
        "is_consistent": status.is_consistent,
        "difference": None if status.conflict is None else str(status.conflict),
        "members": [_member_record(member) for member in status.members],
        "reports": {
            name: {
                "difference": report.difference,
                "since_ms": report.since,
                "refused": [msgspec.to_builtins(member) for member in report.refused],
            }
            for name, report in status.reports.items()
        },
        "silent_brokers": status.silent,
    }


def _member_record(member: MemberStatus) -> dict[str, Any]:
    connection, state = member.connection, member.state
    record: dict[str, Any] = {
        "client_id": connection.client_id,
        "address": connection.client_addr,
        "language": connection.language,
        "version": connection.version,
        "brokers": member.brokers,
        "failure": member.failure,
    }
    if state is None:
        return record
    return record | {
        "subscriptions": _wants(state.subscriptions),
        "properties": state.properties,
        "queues": [
            {"topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id}
            | msgspec.to_builtins(found)
            for queue, found in sorted(state.queues.items())
        ],
        "topics": {topic: msgspec.to_builtins(rates) for topic, rates in sorted(state.topics.items())},
        "stacks": state.stacks,
    }
