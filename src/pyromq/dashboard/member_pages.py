"""The members of a group for a page: their queues, rates, settings, and stacks."""

from collections.abc import Mapping
from typing import Any

from pyromq.client.aio.asking import Asker
from pyromq.client.plans.admin.consumer_status_plans import (
    MEMBER_MS,
    MemberStatus,
    StatusQuery,
    consumer_status,
)
from pyromq.dashboard.message_pages import needed
from pyromq.wire.version_names import version_name

Shown = dict[str, Any]


async def running(asker: Asker, query: Mapping[str, str]) -> Shown:
    """Ask the members of a group, or one of them, what they do; with `stacks`, where their threads are."""
    wanted = StatusQuery(
        needed(query, "group"),
        client_id=query.get("client") or None,
        with_stacks=query.get("stacks") == "1",
    )
    status = await asker.run(consumer_status, wanted, timeout_ms=2 * MEMBER_MS)
    members = [one for one in status.members if wanted.client_id in (None, one.connection.client_id)]
    return {
        "group": status.group,
        "model": status.message_model,
        "type": status.consume_type,
        "conflict": None if status.conflict is None else str(status.conflict),
        "silent": [f"{broker}: {why}" for broker, why in sorted(status.silent.items())],
        "members": [_member(one) for one in members],
    }


def _member(member: MemberStatus) -> Shown:
    connection, state = member.connection, member.state
    shown: Shown = {
        "client": connection.client_id,
        "address": connection.client_addr,
        "language": connection.language,
        "version": version_name(connection.version),
        "brokers": member.brokers,
        "failure": member.failure,
        "started": member.started_ms or None,
        "properties": {},
        "queues": [],
        "topics": [],
        "subscriptions": [],
        "stacks": None,
    }
    if state is None:
        return shown
    shown["properties"] = dict(sorted(state.properties.items()))
    shown["stacks"] = state.stacks
    shown["subscriptions"] = [
        {"topic": each.topic, "expression": each.sub_string, "type": each.expression_type}
        for each in state.subscriptions
    ]
    shown["queues"] = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "id": queue.queue_id,
            "committed": each.commit_offset,
            "waiting": each.cached_msg_count,
            "lastPull": each.last_pull_timestamp or None,
            "lastConsume": each.last_consume_timestamp or None,
            "locked": each.locked,
        }
        for queue, each in sorted(state.queues.items())
    ]
    shown["topics"] = [
        {
            "topic": topic,
            "okRate": each.consume_ok_tps,
            "failedRate": each.consume_failed_tps,
            "milliseconds": each.consume_rt,
            "failed": each.consume_failed_msgs,
        }
        for topic, each in sorted(state.topics.items())
    ]
    return shown
