"""The contents of the pages, from the picture: lists, cut to a page on the server, and one topic, one group.

Every list takes `filter` (part of a name), `sort`, `page` and `size`, and says how many there are in all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from pyromq.client.namespaces import DEAD_LETTER_TOPIC_PREFIX
from pyromq.client.observation.broker_clock import uptime_s
from pyromq.client.observation.snapshot import BrokerSnapshot
from pyromq.codes import Perm
from pyromq.dashboard.failure_advice import next_step
from pyromq.dashboard.health import badge, severity_of_dead_letters
from pyromq.dashboard.picture import GroupPicture, NameKind, Picture, TopicPicture
from pyromq.errors import ConfigError, NotThere, Refused
from pyromq.model import MessageQueue
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.offset_bodies import TopicOffset
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.version_names import version_name

T = TypeVar("T")
Query = Mapping[str, str]
Shown = dict[str, Any]

PAGE_SIZE: Final = 50
PAGE_SIZE_MAX: Final = 200
#: Points of the small chart in a list's row.
SPARK_POINTS: Final = 40
#: Points of a large chart.
CHART_POINTS: Final = 240
#: From this share of the disk on brokers take no more messages soon.
_DISK_WARNING: Final = 0.75
#: Queues of one group or topic that a page lists at most; the rest is counted.
QUEUES_SHOWN_MAX: Final = 512


def paged(items: Sequence[T], query: Query, show: Callable[[T], Shown]) -> Shown:
    """Return one page of a list, and where in the whole it is."""
    size = _number(query, "size", PAGE_SIZE, PAGE_SIZE_MAX)
    page_count = max(1, -(-len(items) // size))
    page = min(_number(query, "page", 1, page_count), page_count)
    rows = [show(item) for item in items[(page - 1) * size : page * size]]
    return {"rows": rows, "page": page, "pages": page_count, "size": size, "total": len(items)}


def overview(picture: Picture, _query: Query) -> Shown:
    """Return the cluster: its brokers, how much goes in and out, and what is wrong."""
    normal = [topic for topic in picture.topics.values() if topic.kind is NameKind.NORMAL]
    groups = [group for group in picture.groups.values() if group.kind is NameKind.NORMAL]
    dead = sum(topic.held for topic in picture.topics.values() if topic.kind is NameKind.DEAD)
    busiest = sorted(normal, key=lambda topic: -(topic.series.rate or 0.0))[:5]
    behind = sorted((group for group in groups if group.lag), key=lambda group: -group.lag)[:5]
    return {
        "takenAt": picture.taken_at_ms,
        "brokers": [
            *(_broker(picture, broker) for broker in picture.brokers),
            *({**_broker(picture, one.broker), "goneAt": one.since_ms} for one in picture.gone),
        ],
        "health": badge(picture.health),
        "topicCount": len(normal),
        "groupCount": len(groups),
        "lag": sum(group.lag for group in groups),
        "deadLetters": dead,
        "deadLetterSeverity": severity_of_dead_letters(picture.health),
        "in": _last(picture.incoming),
        "out": _last(picture.outgoing),
        "inPoints": _points(picture.incoming),
        "outPoints": _points(picture.outgoing),
        "busiest": [
            {"name": one.name, "rate": one.series.rate, "points": spark(one.series.points)} for one in busiest
        ],
        "behind": [{"name": one.name, "lag": one.lag, "points": spark(one.lags)} for one in behind],
        "warnings": warnings(picture),
    }


def warnings(picture: Picture) -> list[Shown]:
    """Return what an operator should look at, each with what to do."""
    # One that fails at everything is told once.
    failing = {broker.broker_name for broker in picture.brokers if broker.failure is not None}
    found = [
        _warning(what, why, "Is it running, and does its address lead from here to it?")
        for what, why in picture.troubles.items()
        if what.partition(" ")[2] not in failing
    ]
    names = {broker.broker_name for broker in picture.brokers}
    masters = {broker.broker_name for broker in picture.masters}
    for name in sorted(names - masters):
        found.append(
            _warning(
                name,
                "has no master: nothing can be sent to it",
                "Start its master, or let a slave take over: `pyromq doctor` has the command.",
            )
        )
    for one in picture.gone:
        found.append(
            _warning(
                f"{one.broker.broker_name} ({one.broker.address})",
                "gone; no name server knows it any more",
                "Start it again. If it was stopped for good, this line goes within the hour.",
            )
        )
    for broker in picture.brokers:
        if broker.failure is not None:
            found.append(
                _warning(
                    f"{broker.broker_name} ({broker.address})",
                    broker.failure,
                    _refusal_step(broker) or "Start it, or open the way to its address.",
                )
            )
        ratio = broker.number("commitLogDiskRatio")
        if ratio is not None and ratio >= _DISK_WARNING:
            found.append(
                _warning(
                    f"{broker.broker_name} ({broker.address})",
                    f"its disk is {ratio:.0%} full",
                    "Make room, or lower fileReservedTime: at 90 % it takes no messages.",
                )
            )
    return found


def _warning(what: str, why: str, next_step: str) -> Shown:
    return {"what": what, "why": why, "next": next_step}


def _refusal_step(broker: BrokerSnapshot) -> str | None:
    """Return what to do about a broker that is there and refuses its figures, mostly by access control."""
    return next_step(broker.error) if isinstance(broker.error, Refused) else None


def _broker(picture: Picture, broker: BrokerSnapshot) -> Shown:
    end = broker.number("commitLogMaxOffset")
    master = picture.master(broker.broker_name)
    master_end = None if master is None else master.number("commitLogMaxOffset")
    behind = None
    if not broker.is_master and end is not None and master_end is not None:
        behind = max(0, int(master_end - end))
    listed = picture.replicas.get(broker.broker_name)
    replica = (
        next((one for one in listed.replicas if one.address == broker.address), None) if listed else None
    )
    return {
        "cluster": broker.cluster,
        "name": broker.broker_name,
        "id": broker.broker_id,
        "role": "master" if broker.is_master else "slave",
        "address": broker.address,
        "version": broker.figures.get("brokerVersionDesc"),
        "pyromqVersion": broker.figures.get("pyromqVersion"),
        "since": broker.number("bootTimestamp"),
        "upSeconds": uptime_s(broker.figures),
        "in": broker.newest_rate("putTps"),
        "out": broker.newest_rate("getTransferedTps"),
        "disk": broker.number("commitLogDiskRatio"),
        "capacity": broker.figures.get("commitLogDirCapacity"),
        "logBytes": _difference(end, broker.number("commitLogMinOffset")),
        "today": broker.today_in,
        "slaves": sum(
            1 for one in picture.brokers if one.broker_name == broker.broker_name and not one.is_master
        ),
        "behindBytes": behind,
        "inSync": None if replica is None else replica.is_in_sync,
        "epoch": None if listed is None else listed.epoch,
        "failure": broker.failure,
        "isRefusing": isinstance(broker.error, Refused),
        "goneAt": None,
        "versionDiffers": _differs_in_version(picture, broker),
    }


def _differs_in_version(picture: Picture, broker: BrokerSnapshot) -> bool:
    """Whether other brokers of its cluster say another version."""

    def said(one: BrokerSnapshot) -> tuple[str | None, str | None]:
        return one.figures.get("brokerVersionDesc"), one.figures.get("pyromqVersion")

    peers = [one for one in picture.brokers if one.cluster == broker.cluster and one.figures]
    return bool(broker.figures) and any(said(one) != said(broker) for one in peers)


# Topics


def topics(picture: Picture, query: Query) -> Shown:
    """Return a page of the topics; `kind` is normal, retry, dead, system or all."""
    kind = query.get("kind", NameKind.NORMAL)
    wanted = _filtered(picture.topics.values(), query, kind)
    readers: dict[str, int] = {}
    for group in picture.groups.values():
        for name in group.offsets:
            readers[name] = readers.get(name, 0) + 1
    orders: dict[str, Callable[[TopicPicture], Any]] = {
        "name": lambda topic: topic.name,
        "rate": lambda topic: (-(topic.series.rate or 0.0), topic.name),
        "messages": lambda topic: (-topic.held, topic.name),
        "last": lambda topic: (-topic.last_stored_ms, topic.name),
    }
    ordered = sorted(wanted, key=orders.get(query.get("sort", ""), orders["name"]))
    return paged(ordered, query, lambda topic: _topic_row(topic, readers.get(topic.name, 0)))


def _topic_row(topic: TopicPicture, readers: int) -> Shown:
    return {
        "name": topic.name,
        "kind": topic.kind,
        "brokers": sorted(topic.configs),
        "queues": sum(config.read_queue_nums for config in topic.configs.values()),
        "perm": "".join(sorted({_perm(config.perm) for config in topic.configs.values()})),
        "rate": topic.series.rate,
        "points": spark(topic.series.points),
        "messages": topic.held if topic.looked_at_ms else None,
        "last": topic.last_stored_ms or None,
        "groups": readers,
    }


def topic(picture: Picture, query: Query) -> Shown:
    """Return one topic: its settings, queues, rate, and who reads it."""
    name = query.get("name", "")
    found = picture.topics.get(name)
    if found is None:
        raise NotThere(f"there is no topic {name!r} in this cluster; it may be named differently, or deleted")
    groups = [group for group in picture.groups.values() if name in group.offsets]
    queues = sorted(found.edges.items())
    return {
        "name": name,
        "kind": found.kind,
        "rate": found.series.rate,
        "points": _points(found.series.points),
        "messages": found.held,
        "failure": found.failure,
        "missing": _missing(picture, found.configs, found.edges),
        "lookedAt": found.looked_at_ms or None,
        "configs": [_topic_config(broker, config) for broker, config in sorted(found.configs.items())],
        "queueCount": len(queues),
        "queues": [
            {
                "broker": queue.broker_name,
                "id": queue.queue_id,
                "min": edge.min_offset,
                "max": edge.max_offset,
                "last": edge.last_update_timestamp or None,
            }
            for queue, edge in queues[:QUEUES_SHOWN_MAX]
        ],
        "groups": [
            {
                "name": group.name,
                "lag": sum(lag for queue, _, lag in picture.lag_rows(group) if queue.topic == name),
                "members": None if group.member_ids is None else len(group.member_ids),
            }
            for group in sorted(groups, key=lambda group: group.name)[:PAGE_SIZE_MAX]
        ],
        "groupCount": len(groups),
    }


def _missing(
    picture: Picture, brokers: Iterable[str], edges: Mapping[MessageQueue, TopicOffset]
) -> list[str]:
    """Return which of some brokers have queues of which nothing is known, for no master of theirs answers."""
    known = {queue.broker_name for queue in edges}
    masters = {broker.broker_name for broker in picture.masters if broker.failure is None}
    return sorted(set(brokers) - known - masters)


def _topic_config(broker: str, config: TopicConfig) -> Shown:
    return {
        "broker": broker,
        "readQueues": config.read_queue_nums,
        "writeQueues": config.write_queue_nums,
        "perm": config.perm,
        "permText": _perm(config.perm),
        "ordered": config.order,
        "type": config.topic_type,
        "attributes": config.attributes or {},
    }


# Groups


def groups(picture: Picture, query: Query) -> Shown:
    """Return a page of the groups; `state` is all, online, offline or behind."""
    kind = query.get("kind", NameKind.NORMAL)
    states: dict[str, Callable[[GroupPicture], bool]] = {
        "online": lambda group: bool(group.member_ids),
        "offline": lambda group: group.member_ids == set(),
        "behind": lambda group: group.lag > 0,
    }
    is_meant = states.get(query.get("state", ""), _is_any)
    wanted = [group for group in _filtered(picture.groups.values(), query, kind) if is_meant(group)]
    orders: dict[str, Callable[[GroupPicture], Any]] = {
        "name": lambda group: group.name,
        "lag": lambda group: (-group.lag, group.name),
        "rate": lambda group: (-(group.series.rate or 0.0), group.name),
        "members": lambda group: (-len(group.member_ids or ()), group.name),
    }
    ordered = sorted(wanted, key=orders.get(query.get("sort", ""), orders["name"]))
    return paged(ordered, query, lambda group: _group_row(picture, group))


def _is_any(_group: GroupPicture) -> bool:
    return True


def _group_row(picture: Picture, group: GroupPicture) -> Shown:
    dead = picture.topics.get(DEAD_LETTER_TOPIC_PREFIX + group.name)
    return {
        "name": group.name,
        "lag": group.lag,
        "inFlight": group.in_flight,
        "points": spark(group.lags),
        "rate": group.series.rate,
        "members": None if group.member_ids is None else len(group.member_ids),
        "topics": sum(1 for name in group.offsets if picture.kind_of_topic(name) is NameKind.NORMAL),
        "deadLetters": 0 if dead is None else dead.held,
        "conflict": any(each.conflict is not None for each in (group.connections or {}).values()),
    }


def group(picture: Picture, query: Query) -> Shown:
    """Return one group: its settings, how far it is in each queue, and who is connected."""
    name = query.get("name", "")
    found = picture.groups.get(name)
    if found is None:
        raise NotThere(f"there is no group {name!r} in this cluster; it may be named differently, or deleted")
    # What is tried again stands behind what was sent.
    rows = sorted(
        picture.lag_rows(found),
        key=lambda row: (picture.kind_of_topic(row[0].topic) is NameKind.RETRY, row[0]),
    )
    edges = {
        queue: edge
        for topic_name in found.offsets
        if (known := picture.topics.get(topic_name)) is not None
        for queue, edge in known.edges.items()
    }
    queues = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "id": queue.queue_id,
            "at": offset,
            "min": edges[queue].min_offset if queue in edges else None,
            "max": edges[queue].max_offset if queue in edges else None,
            "lag": lag if queue in edges else None,
            "inFlight": found.popped[queue].in_flight if queue in found.popped else None,
        }
        for queue, offset, lag in rows[:QUEUES_SHOWN_MAX]
    ]
    return {
        **_group_row(picture, found),
        "kind": found.kind,
        "points": _points(found.lags),
        "ratePoints": _points(found.series.points),
        "failure": found.failure,
        "configs": [_group_config(broker, config) for broker, config in sorted(found.configs.items())],
        "missing": _missing(picture, {queue.broker_name for queue, _, _ in rows}, edges),
        "queueCount": len(rows),
        "queues": queues,
        "topicNames": sorted(found.offsets),
        "clients": list(_consumers(found)),
        "subscriptions": _subscriptions(found),
        "conflicts": sorted(
            {
                each.conflict.difference
                for each in (found.connections or {}).values()
                if each.conflict is not None
            }
        ),
    }


def _group_config(broker: str, config: SubscriptionGroupConfig) -> Shown:
    return {
        "broker": broker,
        "consumeEnable": config.consume_enable,
        "consumeFromMinEnable": config.consume_from_min_enable,
        "consumeBroadcastEnable": config.consume_broadcast_enable,
        "consumeMessageOrderly": config.is_fifo,
        "retryQueueNums": config.retry_queue_nums,
        "retryMaxTimes": config.retry_max_times,
        "brokerId": config.broker_id,
        "whichBrokerWhenConsumeSlowly": config.which_broker_when_consume_slowly,
        "notifyConsumerIdsChangedEnable": config.notify_consumer_ids_changed_enable,
    }


def _subscriptions(group: GroupPicture) -> list[Shown]:
    found = {
        (each.topic, each.sub_string, each.expression_type)
        for connections in (group.connections or {}).values()
        for each in connections.subscriptions.values()
    }
    return [{"topic": topic, "expression": text, "type": kind} for topic, text, kind in sorted(found)]


# Clients


def clients(picture: Picture, query: Query) -> Shown:
    """Return a page of the connections that are known; `role` is consumer or producer."""
    text = query.get("filter", "").strip().casefold()
    if query.get("role", "consumer") == "producer":
        rows = list(_producers(picture))
        missing = picture.producers is None
    else:
        rows = [row for group in picture.groups.values() for row in _consumers(group)]
        missing = False
    found = [
        row
        for row in rows
        if text in row["client"].casefold() or text in row["group"].casefold() or text in row["address"]
    ]
    shown = paged(sorted(found, key=lambda row: (row["group"], row["client"])), query, lambda row: row)
    unseen = sum(
        1 for one in picture.groups.values() if one.connections is None and one.kind is NameKind.NORMAL
    )
    troubles = [f"{what}: {why}" for what, why in picture.troubles.items() if what.startswith("producers")]
    return {**shown, "unseen": unseen, "missing": missing, "troubles": troubles}


def _consumers(group: GroupPicture) -> Iterable[Shown]:
    seen: dict[str, Shown] = {}
    for broker, connections in sorted((group.connections or {}).items()):
        for one in connections.connections:
            row = seen.setdefault(
                one.client_id,
                {
                    "client": one.client_id,
                    "group": group.name,
                    "address": one.client_addr,
                    "language": one.language,
                    "version": version_name(one.version),
                    "model": connections.message_model,
                    "brokers": [],
                },
            )
            row["brokers"].append(broker)
    return [seen[client_id] for client_id in sorted(seen)]


def _producers(picture: Picture) -> Iterable[Shown]:
    for group, members in sorted((picture.producers or {}).items()):
        for client_id, client in sorted(members.items()):
            yield {
                "client": client_id,
                "group": group,
                "address": client.remote_ip,
                "language": client.language,
                "version": version_name(client.version),
                "last": client.last_update_timestamp or None,
                "brokers": [],
            }


def dead_letters(picture: Picture, query: Query) -> Shown:
    """Return a page of the groups with dead letters, those with most first."""
    text = query.get("filter", "").strip().casefold()
    rows: list[Shown] = [
        {
            "group": topic.name.removeprefix(DEAD_LETTER_TOPIC_PREFIX),
            "count": topic.held,
            "last": topic.last_stored_ms or None,
        }
        for topic in picture.topics.values()
        if topic.kind is NameKind.DEAD and text in topic.name.casefold()
    ]
    return paged(sorted(rows, key=lambda row: (-row["count"], row["group"])), query, lambda row: row)


def spark(points: Iterable[tuple[int, float]]) -> list[float]:
    """Return the last values of a series, for a small chart."""
    values = list(points)
    return [round(value, 2) for _, value in islice(values, max(0, len(values) - SPARK_POINTS), None)]


def _filtered(items: Iterable[Any], query: Query, kind: str) -> list[Any]:
    text = query.get("filter", "").strip().casefold()
    return [item for item in items if kind in ("all", item.kind) and text in item.name.casefold()]


def _points(points: Sequence[tuple[int, float]]) -> list[list[float]]:
    """Return a series for a chart, every n-th of its points if they are many, and the last."""
    step = max(1, -(-len(points) // CHART_POINTS))
    return [[at_ms, round(value, 2)] for at_ms, value in list(points)[::-1][::step]][::-1]


def _last(points: Sequence[tuple[int, float]]) -> float | None:
    return points[-1][1] if points else None


def _difference(one: float | None, other: float | None) -> int | None:
    return None if one is None or other is None else max(0, int(one - other))


def _perm(perm: int) -> str:
    return ("R" if perm & Perm.READ else "") + ("W" if perm & Perm.WRITE else "") or "none"


def _number(query: Query, name: str, default: int, most: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal()):
        raise ConfigError(f"{name}={text!r} is no number")
    return max(1, min(int(text), most))
