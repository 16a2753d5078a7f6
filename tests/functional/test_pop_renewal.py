"""Messages that are renewed for their clients: they stay with one that is there, and leave with one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pop_stage import GROUP, SECOND_MS, PopStage, pop_stage

from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.retry_policy import GroupRetryPolicy, decode_retry_policy

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[PopStage]:
    async with pop_stage(tmp_path / "broker") as stage:
        # After a start all clients have some time to show up.
        await stage.pass_time(2 * MINUTE_MS)
        yield stage


def here(*clients: str) -> set[tuple[str, str]]:
    return {(client, GROUP) for client in clients}


@pytest.mark.row("PO-20")
@pytest.mark.parametrize("is_fifo", [False, True], ids=["", "in order"])
async def test_a_listener_of_three_minutes_is_not_disturbed(stage: PopStage, *, is_fifo: bool) -> None:
    stage.broker.pop.is_there = lambda client, group: (client, group) in here("one")
    member = stage.member(renewed_for="one", is_fifo=is_fifo)
    await stage.send(b"slow")
    messages = await member.pop()
    others = []

    for _ in range(36):
        await stage.pass_time(5 * SECOND_MS)
        others += await member.pop()
    await member.ack_all(messages)
    await stage.pass_time(2 * HOUR_MS)

    assert others == await member.pop() == []


@pytest.mark.row("PO-20")
@pytest.mark.parametrize("is_told", [True, False], ids=["termination", "silence"])
async def test_what_a_client_had_that_is_gone_comes_to_others(stage: PopStage, *, is_told: bool) -> None:
    there = here("one")
    stage.broker.pop.is_there = lambda client, group: (client, group) in there
    member = stage.member(renewed_for="one")
    await stage.send(b"a", b"b")
    await member.pop()
    await stage.pass_time(90 * SECOND_MS)
    there.clear()

    if is_told:
        stage.broker.pop.client_left("one", GROUP)
        await stage.pass_time(SECOND_MS)
    else:
        await stage.pass_time(3 * MINUTE_MS)

    assert await member.bodies() == [b"a", b"b"]


@pytest.mark.row("PO-20")
async def test_only_what_the_client_had_comes_to_others(stage: PopStage) -> None:
    stage.broker.pop.is_there = lambda client, group: (client, group) in here("one", "other")
    one, other = stage.member(renewed_for="one", count_max=1), stage.member(renewed_for="other")
    await stage.send(b"a", b"b")
    await one.pop()
    (kept,) = await other.pop()

    stage.broker.pop.client_left("one", GROUP)
    await stage.pass_time(SECOND_MS)

    assert await other.bodies() == [b"a"]
    await other.ack_all([kept])


@pytest.mark.row("PO-20")
@pytest.mark.parametrize(
    ("policy", "delay_ms"),
    [
        (None, 10 * SECOND_MS),
        (
            b'{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":7000,"max":9000,"multiplier":2}}',
            7_000,
        ),
    ],
    ids=["default", "exponential"],
)
async def test_after_three_hours_a_message_is_given_up(
    stage: PopStage, policy: bytes | None, delay_ms: int
) -> None:
    group_policy: GroupRetryPolicy | None = None if policy is None else decode_retry_policy(policy)
    stage.broker.groups.table.put(SubscriptionGroupConfig(group_name=GROUP, group_retry_policy=group_policy))
    stage.broker.pop.is_there = lambda _client, _group: True
    member = stage.member(renewed_for="one")
    await stage.send(b"stuck")
    await member.pop()

    # It is renewed for 1, 3, 5, 10, 30 and three times 60 minutes, then once by the policy.
    for _ in range(230):
        await stage.pass_time(MINUTE_MS)
        assert await member.pop() == []
    await stage.pass_time(delay_ms - 1)
    assert await member.pop() == []
    await stage.pass_time(1)

    assert await member.bodies() == [b"stuck"]


@pytest.mark.row("PO-20")
async def test_after_a_start_clients_have_time_to_show_up(stage: PopStage) -> None:
    stage.broker.pop.is_there = lambda _client, _group: True
    member = stage.member(renewed_for="one", invisible_ms=10 * SECOND_MS)
    await stage.send(b"kept")
    messages = await member.pop()
    await stage.restart()
    member = stage.member(renewed_for="one")

    await stage.pass_time(100 * SECOND_MS)
    early = await member.pop()
    stage.broker.pop.is_there = lambda _client, _group: True
    await stage.pass_time(10 * MINUTE_MS)

    assert early == await member.pop() == []
    await member.ack_all(messages)


async def test_a_change_ends_the_renewal(stage: PopStage) -> None:
    stage.broker.pop.is_there = lambda _client, _group: True
    member = stage.member(renewed_for="one")
    await stage.send(b"failed")
    (message,) = await member.pop()

    await member.changed(message, 5 * SECOND_MS)
    await stage.pass_time(5 * SECOND_MS)

    assert await member.bodies() == [b"failed"]
