"""Changes of topics and groups that a page orders.

Each master is told, and each answer is returned: a broker that is down must not hide the answers of the
others.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from pyromq.client.aio.asking import Asker
from pyromq.client.client_session import Session
from pyromq.client.names import check_group, check_topic
from pyromq.client.observation.snapshot import BrokerSnapshot
from pyromq.client.plans.admin.scaling_plans import ServerReply, TopicUpdate, update_topic
from pyromq.client.steps import Deadline, Plan
from pyromq.codes import RequestCode
from pyromq.dashboard.picture import NameKind, Picture
from pyromq.errors import ConfigError, PyroError
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig, encode_group
from pyromq.wire.bodies.topic_bodies import MESSAGE_TYPE
from pyromq.wire.headers.namesrv_headers import DeleteTopicInNamesrv
from pyromq.wire.headers.operation_headers import DeleteSubscriptionGroup, DeleteTopic

#: Queues that a topic may have on one broker here; brokers allow more, and nobody means so many.
QUEUES_MAX: Final = 1_024
#: Further tries that a group may have.
RETRIES_MAX: Final = 10_000
_PERMISSIONS: Final = (2, 4, 6)
#: The types that a topic may be given here.
TYPES: Final = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")

Order = Mapping[str, Any]
Shown = dict[str, Any]


async def put_topic(asker: Asker, picture: Picture, order: Order) -> list[Shown]:
    """Create a topic, or change it, on the brokers that are named or on all."""
    name = text_of(order, "name")
    check_topic(name)
    if picture.kind_of_topic(name) is NameKind.SYSTEM:
        raise ConfigError(f"{name} is a topic of the brokers themselves; choose another name")
    perm = whole(order, "perm", 6, 2, 6)
    if perm not in _PERMISSIONS:
        raise ConfigError("perm is 2 (write), 4 (read) or 6 (both)")
    update = TopicUpdate(
        topic=name,
        read_queue_count=whole(order, "readQueues", 8, 1, QUEUES_MAX),
        write_queue_count=whole(order, "writeQueues", 8, 1, QUEUES_MAX),
        perm=perm,
        is_ordered=bool(order.get("ordered", False)),
        attributes=_type_change(order),
    )
    results: list[Shown] = []
    for broker in _brokers(picture, order):
        try:
            told = await asker.run(_update_topic, update, broker.address)
            failure = next((one.failure for one in told if one.failure is not None), None)
        except PyroError as error:
            failure = str(error)
        results.append(_said(broker.name, failure))
    return results


def _type_change(order: Order) -> str | None:
    """Return the change of a topic's type, None where it is to stay."""
    name = order.get("type") or None
    if name is None:
        return None
    if name not in TYPES:
        raise ConfigError(f"type is one of {', '.join(TYPES)}")
    return f"+{MESSAGE_TYPE}={name}"


def _update_topic(
    session: Session, update: TopicUpdate, address: str, deadline: Deadline
) -> Plan[list[ServerReply]]:
    return (yield from update_topic(session, update, address=address, deadline=deadline))


async def delete_topic(asker: Asker, picture: Picture, order: Order) -> list[Shown]:
    """Delete a topic with its messages on all brokers, and at the name servers."""
    name = text_of(order, "name")
    if picture.kind_of_topic(name) is NameKind.SYSTEM:
        raise ConfigError(f"{name} is a topic of the brokers themselves, which need it")
    results = [
        await _tell(
            asker, broker.name, broker.address, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopic(topic=name)
        )
        for broker in _masters(picture)
    ]
    if all(one["failure"] is None for one in results):
        results += [
            await _tell(
                asker,
                f"name server {address}",
                address,
                RequestCode.DELETE_TOPIC_IN_NAMESRV,
                DeleteTopicInNamesrv(topic=name),
            )
            for address in asker.name_servers
        ]
    return results


async def put_group(asker: Asker, picture: Picture, order: Order) -> list[Shown]:
    """Create a group, or change it, on the brokers that are named or on all."""
    name = text_of(order, "name")
    check_group(name)
    results = []
    for broker in _brokers(picture, order):
        known = picture.groups.get(name)
        before = (known.configs.get(broker.name) if known else None) or SubscriptionGroupConfig(
            group_name=name
        )
        # Its attributes stay: a request names only those that change.
        config = replace(
            before,
            attributes=None,
            consume_enable=flag(order, "consumeEnable", default=before.consume_enable),
            consume_from_min_enable=flag(
                order, "consumeFromMinEnable", default=before.consume_from_min_enable
            ),
            consume_broadcast_enable=flag(
                order, "consumeBroadcastEnable", default=before.consume_broadcast_enable
            ),
            consume_message_orderly=flag(order, "consumeMessageOrderly", default=before.is_fifo) or None,
            retry_queue_nums=whole(order, "retryQueueNums", before.retry_queue_nums, 0, QUEUES_MAX),
            retry_max_times=whole(order, "retryMaxTimes", before.retry_max_times, -1, RETRIES_MAX),
        )
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        results.append(await _tell(asker, broker.name, broker.address, code, None, encode_group(config)))
    return results


async def delete_group(asker: Asker, picture: Picture, order: Order) -> list[Shown]:
    """Delete a group on all brokers, and how far it is unless that is to stay."""
    name = text_of(order, "name")
    found = picture.groups.get(name)
    if found is not None and found.kind is NameKind.SYSTEM:
        raise ConfigError(f"{name} is a group of the brokers themselves, which need it")
    if found is not None and found.member_ids and not order.get("force"):
        raise ConfigError(
            f"group {name} has {len(found.member_ids)} members connected, which would create it anew: stop "
            "them first"
        )
    header = DeleteSubscriptionGroup(group_name=name, remove_offset=not order.get("keepOffsets", False))
    return [
        await _tell(asker, broker.name, broker.address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
        for broker in _masters(picture)
    ]


async def _tell(
    asker: Asker, who: str, address: str, code: RequestCode, header: Any, body: bytes = b""
) -> Shown:
    try:
        await asker.ask(address, code, header, body)
    except PyroError as error:
        return _said(who, str(error))
    return _said(who, None)


def _said(who: str, failure: str | None) -> Shown:
    return {"who": who, "failure": failure}


def _masters(picture: Picture) -> list[BrokerSnapshot]:
    if not picture.masters:
        raise ConfigError("no master is known to tell it to; is a broker running?")
    return picture.masters


def _brokers(picture: Picture, order: Order) -> list[BrokerSnapshot]:
    names = order.get("brokers") or []
    there = _masters(picture)
    if not names:
        return there
    unknown = set(names) - {broker.name for broker in there}
    if unknown:
        raise ConfigError(f"no master is called {', '.join(sorted(map(str, unknown)))}")
    return [broker for broker in there if broker.name in names]


def text_of(order: Order, name: str) -> str:
    """Return a text that an order must have."""
    value = order.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"say the {name}")
    return value.strip()


def whole(order: Order, name: str, default: int, least: int, most: int) -> int:
    """Return a whole number of an order, within limits."""
    value = order.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{name} is a whole number from {least} to {most}, not {value!r}")
    return value


def flag(order: Order, name: str, *, default: bool) -> bool:
    """Return a yes or no of an order."""
    value = order.get(name, default)
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is true or false, not {value!r}")
    return value
