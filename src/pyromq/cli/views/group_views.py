"""Consumer and producer groups, as `pyromq admin` and `pyromq group` show them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from pyromq.cli.bars import tracked
from pyromq.cli.exit_status import NotThere
from pyromq.cli.views.likely import others
from pyromq.cli.views.listing import Listing, unknown
from pyromq.client.plans.admin.targets import Silence
from pyromq.client.sync.admin import Admin
from pyromq.codes import ResponseCode
from pyromq.errors import NetworkError, PyroError, Refused
from pyromq.model import MessageQueue
from pyromq.system_names import is_users_group
from pyromq.wire.bodies.connection_bodies import MemberConnection
from pyromq.wire.bodies.offset_bodies import GroupProgress
from pyromq.wire.version_names import version_name

_RETRY = "%RETRY%"
_PULL = "CONSUME_ACTIVELY"


#: How a client is shown.
_CLIENT = (
    ("#ClientId", "client_id"),
    ("#ClientAddr", "address"),
    ("#Language", "language"),
    ("#Version", "version_name"),
)

#: What a group's settings are of.
_PLACE = ("cluster", "broker")


def progress(admin: Admin, group: str, topic: str | None = None, *, with_clients: bool = False) -> Listing:
    """Show a group's progress in each queue; raises NotThere when it never read anything."""
    silence = Silence()
    found = admin.group_progress(group, topic, silence)
    if not found.queues and silence.why:
        raise unknown(silence, f"where group {group!r} is")
    if not found.queues and topic is not None:
        # Whoever types a topic wrong is told that, and not of groups.
        admin.route(topic)
        read = sorted({queue.topic for queue in admin.group_progress(group, None, silence).queues})
        if read:
            raise NotThere(f"group {group!r} has no progress in {topic!r}; it has in {', '.join(read)}")
    if not found.queues:
        raise NotThere(
            f"group {group!r} has no progress in {topic or 'any topic'}; did it ever read? "
            f"{others('groups', group, _known(admin, silence))}"
        )
    clients = _clients_of_queues(admin, group) if with_clients else {}
    records = [
        progress_record(group, queue, one) | ({"client": clients.get(queue)} if with_clients else {})
        for queue, one in found.queues.items()
    ]
    columns = [
        ("#Topic", "topic"),
        ("#Broker Name", "broker"),
        ("#QID", "queue"),
        ("#Broker Offset", "broker_offset"),
        ("#Consumer Offset", "consumer_offset"),
        *([("#Client IP", "client")] if with_clients else []),
        ("#Diff", "lag"),
        *([("#Inflight", "in_flight")] if any("in_flight" in record for record in records) else []),
        ("#LastTime", "last_consumed_ms"),
    ]
    return Listing(
        columns,
        records,
        ["", f"Consume TPS: {found.tps:.2f}", f"Diff Total: {found.lag}"],
    ).without(silence)


def overview(admin: Admin) -> Listing:
    """All groups, one a line."""
    names = [name.removeprefix(_RETRY) for name in admin.topics() if name.startswith(_RETRY)]
    return _overview(admin, names, Silence())


def listed(admin: Admin, *, with_internal: bool) -> Listing:
    """All groups that brokers know, with members and lag."""
    silence = Silence()
    names = sorted(name for name in _known(admin, silence) if with_internal or is_users_group(name))
    if not names:
        note = "no groups yet; one comes with its first member, or with: pyromq group create NAME"
        return Listing((), (), [note]).without(silence)
    return _overview(admin, names, silence)


def _known(admin: Admin, silence: Silence) -> set[str]:
    tables = admin.all_group_configs(silence).values()
    return {name for table in tables for name in table.subscription_group_table}


def no_group(group: str, known: set[str], silence: Silence) -> PyroError:
    """Return the error that no broker has a group; that nobody knows, when brokers did not answer."""
    if silence.why:
        return unknown(silence, f"whether there is a group {group!r}")
    return NotThere(f"no broker has a group {group!r}; {others('groups', group, known)}")


def check_group(admin: Admin, group: str) -> None:
    """Raise NotThere unless a broker has the group."""
    silence = Silence()
    known = _known(admin, silence)
    if group not in known:
        raise no_group(group, known, silence)


def connections(admin: Admin, group: str, address: str | None) -> Listing:
    """Show the members of a consumer group, and their subscriptions."""
    silence = Silence()
    try:
        found = admin.consumer_connections(group, address, silence)
    except NetworkError as error:
        raise unknown(silence, f"a member of group {group!r}") from error
    return Listing(
        _CLIENT,
        [
            _client_record(group, one)
            | {
                "subscriptions": {
                    topic: wanted.sub_string for topic, wanted in sorted(found.subscriptions.items())
                },
                "consume_type": found.consume_type,
                "message_model": found.message_model,
                "consume_from_where": found.consume_from_where,
            }
            for one in found.connections
        ],
        [
            "",
            "Below is subscription:",
            *(f"  {topic}  {wanted.sub_string}" for topic, wanted in sorted(found.subscriptions.items())),
            "",
            f"ConsumeType: {found.consume_type}",
            f"MessageModel: {found.message_model}",
            f"ConsumeFromWhere: {found.consume_from_where}",
        ],
        [] if found.conflict is None else [f"members subscribe differently: {found.conflict.difference}"],
    ).without(silence)


def producers_of(admin: Admin, group: str, topic: str) -> Listing:
    """The members of a producer group at a topic's brokers; raises NotThere when there are none."""
    found = admin.producer_connections(group, topic)
    if not found:
        raise NotThere(f"no producer of group {group!r} is connected to a broker of topic {topic!r}")
    return Listing(
        _CLIENT,
        [_client_record(group, one) for one in found],
    )


def producers_at(admin: Admin, address: str) -> Listing:
    """All producers of a broker."""
    return Listing(
        (
            ("#Group", "group"),
            ("#ClientId", "client_id"),
            ("#RemoteIP", "address"),
            ("#Language", "language"),
            ("#Version", "version_name"),
            ("#LastUpdate", "last_update_ms"),
        ),
        [
            {
                "group": group,
                "client_id": one.client_id,
                "address": one.remote_ip.lstrip("/"),
                "language": one.language,
                "version": one.version,
                "version_name": version_name(one.version),
                "last_update_ms": one.last_update_timestamp,
            }
            for group, clients in sorted(admin.broker_producers(address).items())
            for one in clients
        ],
    )


def configs(admin: Admin, group: str) -> Listing:
    """A group's settings on each broker; raises NotThere when no broker knows it."""
    records = []
    silence = Silence()
    tables = admin.all_group_configs(silence)
    for place, table in tables.items():
        config = table.subscription_group_table.get(group)
        if config is not None:
            records.append(
                {"cluster": place.cluster, "broker": place.broker_name}
                | {name: value for name, value in msgspec.to_builtins(config).items() if value is not None}
            )
    if not records:
        known = {name for table in tables.values() for name in table.subscription_group_table}
        raise no_group(group, known, silence)
    notes = []
    for record in records:
        notes.append(
            f"============================={record['cluster']}:{record['broker']}============================="
        )
        notes += [f"{name:<40}=  {_java(value)}" for name, value in record.items() if name not in _PLACE]
    return Listing((), records, notes).without(silence)


def lags(admin: Admin, address: str, *, only_ordered: bool, timeout_ms: int, least: int) -> Listing:
    """Show the lag of all groups of a broker in each queue that they have read from."""
    found = admin.broker_lags(address, only_ordered=only_ordered, timeout_ms=timeout_ms)
    records = [
        progress_record(group, queue, one)
        for group, topics in sorted(found.items())
        for lag in topics
        for queue, one in sorted(lag.offset_table.items())
        if one.behind >= least and one.last_timestamp > 0
    ]
    total = sum(lag.behind for topics in found.values() for lag in topics)
    return Listing(
        (
            ("#Topic", "topic"),
            ("#Group", "group"),
            ("#Broker Name", "broker"),
            ("#QID", "queue"),
            ("#Broker Offset", "broker_offset"),
            ("#Consumer Offset", "consumer_offset"),
            ("#Diff", "lag"),
            ("#LastTime", "last_consumed_ms"),
        ),
        records,
        ["", f"Diff Total: {total}"],
    )


def client_offsets(admin: Admin, group: str, topic: str, client_id: str) -> Listing:
    """Show the progress that each member tells."""
    return Listing(
        (("#clientId", "client_id"), ("#brokerName", "broker"), ("#queueId", "queue"), ("#offset", "offset")),
        [
            {"client_id": client, "broker": queue.broker_name, "queue": queue.queue_id, "offset": offset}
            for client, queues in sorted(admin.client_offsets(group, topic, client_id).items())
            for queue, offset in sorted(queues.items())
        ],
    )


def progress_record(group: str, queue: MessageQueue, one: GroupProgress) -> dict[str, Any]:
    """Return how far a group got in a queue, for programs."""
    return {
        "group": group,
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "broker_offset": one.broker_offset,
        "consumer_offset": one.consumer_offset,
        "lag": one.behind,
        "last_consumed_ms": one.last_timestamp,
    } | ({} if one.in_flight is None else {"next_offset": one.pull_offset, "in_flight": one.in_flight})


def _client_record(group: str, one: MemberConnection) -> dict[str, Any]:
    return {
        "group": group,
        "client_id": one.client_id,
        "address": one.client_addr,
        "language": one.language,
        "version": one.version,
        "version_name": version_name(one.version),
    }


def _overview(admin: Admin, names: Sequence[str], silence: Silence) -> Listing:
    groups = [admin.group_overview(name, silence) for name in tracked(names, "groups")]
    return Listing(
        (
            ("#Group", "group"),
            ("#Count", "members"),
            ("#Version", "version_name"),
            ("#Type", "type"),
            ("#Model", "model"),
            ("#TPS", "tps"),
            ("#Diff Total", "lag"),
        ),
        [
            {
                "group": one.group,
                "members": one.member_count,
                "version": one.version if one.member_count else "OFFLINE",
                "version_name": version_name(one.version) if one.member_count else "OFFLINE",
                "type": ("PULL" if one.consume_type == _PULL else "PUSH") if one.member_count else None,
                "model": one.message_model or None,
                "tps": one.tps,
                "lag": one.lag,
                "silent_brokers": sorted(place.broker_name for place in silence.why),
            }
            for one in groups
        ],
    ).without(silence)


def _clients_of_queues(admin: Admin, group: str) -> dict[MessageQueue, str]:
    try:
        status = admin.consumer_status(group)
    except (Refused, NetworkError) as error:
        if getattr(error, "code", None) == ResponseCode.CONSUMER_NOT_ONLINE:
            return {}
        raise
    return {
        queue: member.connection.client_id.partition("@")[0]
        for member in status.members
        if member.state is not None
        for queue in member.state.queues
    }


def _java(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
