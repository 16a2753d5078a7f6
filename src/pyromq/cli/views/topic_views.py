"""Topics, as `pyromq admin` and `pyromq topic` show them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from pyromq.cli.admin.scaling_views import permission_text
from pyromq.cli.bars import tracked
from pyromq.cli.exit_status import FAILED
from pyromq.cli.views.listing import Listing
from pyromq.client.plans.admin.targets import Silence
from pyromq.client.sync.admin import Admin
from pyromq.codes import Perm
from pyromq.errors import NetworkError, Refused
from pyromq.model import MessageQueue
from pyromq.system_names import is_users_topic
from pyromq.wire.bodies.offset_bodies import TopicOffset
from pyromq.wire.bodies.route_bodies import TopicRoute

#: Topics that stand for groups, and that nobody lists among his own.
OF_GROUPS = ("%RETRY%", "%DLQ%")
_UNREAD = "NO_CONSUMER"


def names(admin: Admin) -> Listing:
    """All topics, a name a line."""
    return Listing((), [{"topic": name} for name in admin.topics()])


def by_cluster(admin: Admin) -> Listing:
    """All topics but those of groups, with their clusters and readers."""
    records = []
    silence = Silence()
    for topic in tracked(_own(admin.topics()), "topics"):
        try:
            clusters, groups = admin.topic_clusters(topic), admin.topic_readers(topic, silence)
        except (Refused, NetworkError):
            clusters, groups = [], []
        cluster = ", ".join(clusters)
        records += [{"cluster": cluster, "topic": topic, "group": group} for group in groups or [""]]
    return Listing(
        (("#Cluster Name", "cluster"), ("#Topic", "topic"), ("#Consumer Group", "group")), records
    ).without(silence)


def clusters(admin: Admin, topic: str) -> Listing:
    """The clusters that have a topic."""
    found = admin.topic_clusters(topic)
    return Listing((), [{"topic": topic, "cluster": name} for name in found], notes=found)


def status(admin: Admin, topic: str, *, with_readers: bool = False) -> Listing:
    """Each queue of a topic, and below, for people, who reads it."""
    silence = Silence()
    found = admin.topic_status(topic, silence)
    return Listing(
        (
            ("#Broker Name", "broker"),
            ("#QID", "queue"),
            ("#Min Offset", "min_offset"),
            ("#Max Offset", "max_offset"),
            ("#Last Updated", "last_update_ms"),
        ),
        [_queue_record(queue, ends) for queue, ends in found.items()],
        ["", _read_by(admin.topic_readers(topic, silence))] if with_readers else [],
    ).without(silence)


def _read_by(groups: Sequence[str]) -> str:
    return f"read by {', '.join(groups)}" if groups else "no group reads it"


def route(admin: Admin, topic: str) -> Listing:
    """The brokers of a topic."""
    found = admin.route(topic)
    records = route_records(topic, found)
    return Listing(
        (
            ("#ClusterName", "cluster"),
            ("#BrokerName", "broker"),
            ("#BrokerAddrs", "shown_addresses"),
            ("#ReadQueue", "read_queues"),
            ("#WriteQueue", "write_queues"),
            ("#Perm", "perm"),
        ),
        records,
        notes=[
            f"Total: {len(records)} brokers, {sum(one['read_queues'] for one in records)} queues to read, "
            f"{sum(one['write_queues'] for one in records)} to write"
        ],
    )


def typed_status(admin: Admin, topic: str) -> Listing:
    """Each queue of a topic, with the type of the topic's messages on its broker for programs."""
    types = _types(admin, topic)
    shown = status(admin, topic)
    return replace(shown, records=[{**one, "type": types.get(one["broker"])} for one in shown.records])


def typed_route(admin: Admin, topic: str) -> Listing:
    """The brokers of a topic, and which type of messages it has there."""
    types = _types(admin, topic)
    shown = route(admin, topic)
    return replace(
        shown,
        columns=[*shown.columns, ("#Type", "type")],
        records=[{**one, "type": types.get(one["broker"])} for one in shown.records],
    )


def _types(admin: Admin, topic: str) -> dict[str, str]:
    """Return the type of a topic by broker, in the words of `topic create --type`.

    Who does not answer is told once, with its queues; who may not be asked has no type.
    """
    try:
        found = admin.topic_types(topic, Silence())
    except (NetworkError, Refused):
        return {}
    return {broker: str(kind).lower() for broker, kind in found.items()}


def route_text(found: TopicRoute) -> str:
    """Return a route as mqadmin prints it: JSON over several lines."""
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()


def route_records(topic: str, found: TopicRoute) -> list[dict[str, Any]]:
    """Return a record for each broker of a topic."""
    queues = {part.broker_name: part for part in found.queue_datas}
    return [
        {
            "topic": topic,
            "cluster": broker.cluster,
            "broker": broker.broker_name,
            "addresses": {str(number): at for number, at in sorted(broker.broker_addrs.items())},
            "shown_addresses": [f"{number}={at}" for number, at in sorted(broker.broker_addrs.items())],
            "read_queues": part.read_queue_nums,
            "write_queues": part.write_queue_nums,
            "perm": part.perm,
        }
        for broker in sorted(found.broker_datas, key=lambda broker: broker.broker_name)
        if (part := queues.get(broker.broker_name)) is not None
    ]


def listed(admin: Admin, *, with_internal: bool) -> Listing:
    """Topics with their queues and messages, one a line."""
    records = []
    silence = Silence()
    for topic in tracked(admin.topics() if with_internal else users_topics(admin), "topics"):
        try:
            found = admin.route(topic)
            queues = _ends(admin, topic, silence)
        except (Refused, NetworkError) as error:
            records.append({"topic": topic, "failure": str(error)})
            continue
        records.append(_summary(topic, found, queues, silence))
    return Listing(
        (
            ("TOPIC", "topic"),
            ("BROKERS", "brokers"),
            ("QUEUES", "write_queues"),
            ("MESSAGES", "messages"),
            ("LAST", "last_update_ms"),
            ("MAY BE", "perm"),
        ),
        records,
        [] if records else ["no topics yet; one is made with: pyromq topic create NAME"],
        [f"{one['topic']}: {one['failure']}" for one in records if "failure" in one],
        FAILED if any("failure" in one for one in records) else 0,
    ).without(silence)


def _ends(admin: Admin, topic: str, silence: Silence) -> dict[MessageQueue, TopicOffset] | None:
    """Return where a topic's queues end; None when none of its brokers answers."""
    try:
        return admin.topic_status(topic, silence)
    except NetworkError:
        return None


def users_topics(admin: Admin) -> list[str]:
    """Return the topics of applications."""
    of_brokers = {name for place in admin.brokers() for name in (place.broker_name, place.cluster)}
    return [name for name in admin.topics() if is_users_topic(name) and name not in of_brokers]


def flows(
    admin: Admin,
    topic: str | None,
    *,
    only_active: bool,
    with_internal: bool = True,
    must_be_there: bool = False,
) -> Listing:
    """Show the rates into topics and out to groups; a topic that is not there has none, or TopicNotFound."""
    records = []
    silence = Silence()
    listed = _own(admin.topics()) if with_internal or topic is not None else users_topics(admin)
    asked = [name for name in listed if topic in (None, name)]
    if not asked and topic is not None and must_be_there:
        admin.route(topic)
    for name in tracked(asked, "topics"):
        records += _flows_of(admin, name, silence, only_active=only_active)
    return Listing(
        (
            ("#Topic", "topic"),
            ("#Consumer Group", "group"),
            ("#Accumulation", "lag"),
            ("#InTPS", "in_tps"),
            ("#OutTPS", "out_tps"),
            ("#InMsg24Hour", "in_day"),
            ("#OutMsg24Hour", "out_day"),
        ),
        records,
    ).without(silence)


def _flows_of(admin: Admin, topic: str, silence: Silence, *, only_active: bool) -> list[dict[str, Any]]:
    try:
        inward, *outward = admin.topic_flows(topic, silence)
    except (Refused, NetworkError):
        return []
    common = {"topic": topic, "in_tps": inward.tps, "in_day": inward.day_sum}
    records: list[dict[str, Any]] = []
    for flow in outward:
        if only_active and not inward.day_sum and not flow.day_sum:
            continue
        try:
            lag = max(admin.group_progress(flow.group or "", topic, silence).lag, 0)
        except (Refused, NetworkError):
            lag = 0
        records.append(
            common | {"group": flow.group, "lag": lag, "out_tps": flow.tps, "out_day": flow.day_sum}
        )
    if not outward and (inward.day_sum or not only_active):
        records.append(common | {"group": None, "lag": 0, "out_tps": None, "out_day": _UNREAD})
    return records


def _summary(
    topic: str, found: TopicRoute, queues: Mapping[MessageQueue, TopicOffset] | None, silence: Silence
) -> dict[str, Any]:
    silent = {place.broker_name for place in silence.why}
    is_known = queues is not None
    queues = queues or {}
    perms = sorted({part.perm & (Perm.READ | Perm.WRITE) for part in found.queue_datas})
    return {
        "topic": topic,
        "brokers": sorted(part.broker_name for part in found.queue_datas),
        "read_queues": sum(part.read_queue_nums for part in found.queue_datas),
        "write_queues": sum(part.write_queue_nums for part in found.queue_datas),
        "messages": sum(ends.max_offset - ends.min_offset for ends in queues.values()) if is_known else None,
        "last_update_ms": max((ends.last_update_timestamp for ends in queues.values()), default=0),
        "perm": "; ".join(permission_text(perm) for perm in perms),
        "silent_brokers": sorted(silent & {part.broker_name for part in found.queue_datas}),
    }


def _queue_record(queue: MessageQueue, ends: TopicOffset) -> dict[str, Any]:
    return {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "min_offset": ends.min_offset,
        "max_offset": ends.max_offset,
        "last_update_ms": ends.last_update_timestamp,
    }


def _own(topics: Sequence[str]) -> list[str]:
    return [name for name in topics if not name.startswith(OF_GROUPS)]
