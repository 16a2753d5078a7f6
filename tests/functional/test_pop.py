"""Messages are handed out one by one, and acknowledged one by one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import copy_as_it_is, settle
from pop_stage import DEAD, GROUP, RETRY, SECOND_MS, PopStage, pop_stage

from pyromq.broker.pop.pop_asks import AckResult, PopAsk, PopFilter, PopStatus
from pyromq.errors import ServiceNotAvailable
from pyromq.store.store import Draft
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.retry_policy import DEFAULT_RETRY_POLICY, ExponentialRetryPolicy
from pyromq.wire.java_hash import java_hash
from pyromq.wire.receipt_handle import ReceiptHandle
from pyromq.wire.record import encode_host

MINUTE_MS = 60_000
HOST = encode_host("127.0.0.1", 10911)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[PopStage]:
    async with pop_stage(tmp_path / "broker") as stage:
        yield stage


# Hand out and acknowledge


@pytest.mark.row("PO-01")
async def test_two_members_share_one_queue(stage: PopStage) -> None:
    await stage.send(*[b"%d" % number for number in range(10)])
    one, other = stage.member(count_max=3), stage.member(count_max=3)

    seen = [await member.bodies() for member in (one, other, one, other, one)]

    assert seen == [[b"0", b"1", b"2"], [b"3", b"4", b"5"], [b"6", b"7", b"8"], [b"9"], []]


@pytest.mark.row("PO-02")
async def test_what_is_acknowledged_never_comes_again(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(b"first", b"second")
    messages = await member.pop()

    results = await member.ack(*messages)
    await stage.pass_time(10 * MINUTE_MS)

    assert list(results) == [AckResult.OK, AckResult.OK]
    assert await member.bodies() == []
    assert stage.broker.pop.in_flight(GROUP, "orders", 0) == 0


@pytest.mark.row("PO-02", "PO-04")
@pytest.mark.parametrize("is_killed", [True, False], ids=["kill", "stop"])
async def test_a_restart_forgets_no_acknowledgement_and_no_handle(
    stage: PopStage, tmp_path: Path, *, is_killed: bool
) -> None:
    member = stage.member()
    await stage.send(b"acknowledged", b"in flight", b"lost", b"waits")
    done, kept, _, _ = await member.pop()
    await member.ack_all([done])
    if is_killed:
        copy_as_it_is(stage.folder, tmp_path / "left")
    else:
        await stage.restart()
    folder = tmp_path / "left" if is_killed else tmp_path / "none"

    async def look(second: PopStage) -> None:
        member = second.member()
        assert await member.bodies() == []
        assert list(await member.ack(kept)) == [AckResult.OK]
        await second.pass_time(MINUTE_MS)
        assert sorted(await member.await_bodies(2)) == [b"lost", b"waits"]
        assert await member.bodies() == []

    if is_killed:
        async with pop_stage(folder, clock=stage.clock) as second:
            await look(second)
    else:
        await look(stage)


@pytest.mark.row("PO-03")
async def test_what_is_not_acknowledged_comes_again_when_its_time_is_up(stage: PopStage) -> None:
    member = stage.member(invisible_ms=10 * SECOND_MS)
    await stage.send(b"again", TAGS="paid", KEYS="k", own="x")
    (first,) = await member.pop()

    await stage.pass_time(10 * SECOND_MS - 1)
    before = await member.bodies()
    await stage.pass_time(1)
    (second,) = await aeventually(member.pop)
    await stage.pass_time(10 * SECOND_MS)
    (third,) = await aeventually(member.pop)

    assert before == []
    assert (first.attempt, second.attempt, third.attempt) == (1, 2, 3)
    assert [message.body for message in (second, third)] == [b"again", b"again"]
    assert second.record.topic == third.record.topic == RETRY
    kept = {name: first.properties[name] for name in ("UNIQ_KEY", "TAGS", "KEYS", "own")}
    assert kept.items() <= second.properties.items()
    assert kept.items() <= third.properties.items()
    assert second.record.born_at_ms == first.record.born_at_ms
    assert second.properties["1ST_POP_TIME"] == str(first.handle.popped_at_ms)
    assert third.properties["1ST_POP_TIME"] == str(first.handle.popped_at_ms)


@pytest.mark.row("PO-05")
async def test_a_late_acknowledgement_is_told_so(stage: PopStage) -> None:
    member = stage.member(invisible_ms=SECOND_MS)
    await stage.send(b"late")
    messages = await member.pop()
    await stage.pass_time(SECOND_MS)
    (again,) = await aeventually(member.pop)

    assert list(await member.ack(*messages)) == [AckResult.EXPIRED]
    assert await member.change(messages[0], 5_000) is AckResult.EXPIRED
    assert list(await member.ack(again)) == [AckResult.OK]


@pytest.mark.row("PO-06")
async def test_a_second_acknowledgement_in_time_is_fine_and_a_changed_handle_is_refused(
    stage: PopStage,
) -> None:
    member = stage.member()
    await stage.send(b"twice", b"changed")
    twice, changed = await member.pop()

    assert [*await member.ack(twice), *await member.ack(twice)] == [AckResult.OK, AckResult.OK]
    new = await member.changed(changed, 30 * SECOND_MS)
    assert new.handle.start_offset == changed.handle.offset
    assert list(await member.ack(changed)) == [AckResult.EXPIRED]
    assert await member.change(changed, 1) is AckResult.EXPIRED
    assert list(await member.ack(new)) == [AckResult.OK]
    await stage.pass_time(MINUTE_MS)
    assert await member.bodies() == []


async def test_a_change_says_when_a_message_comes_again(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(b"soon", b"at once", b"later")
    soon, at_once, later = await member.pop()

    await member.changed(soon, 5 * SECOND_MS)
    await member.changed(at_once, 0)
    await member.changed(later, 10 * MINUTE_MS)
    seen = [await member.bodies()]
    for ms in (999, 1, 3_999, 1, MINUTE_MS, 9 * MINUTE_MS):
        await stage.pass_time(ms)
        seen.append(await member.bodies(invisible_ms=60 * MINUTE_MS))

    # Never sooner than in a second: a client that asks for no time would use up its attempts at once.
    assert seen == [[], [], [b"at once"], [], [b"soon"], [], [b"later"]]


async def test_handles_of_nothing_are_unknown(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(b"one", b"two")
    (first,) = await member.pop(count_max=1)
    handle = first.handle

    def other(**changes: int) -> ReceiptHandle:
        words = {name: getattr(handle, name) for name in ReceiptHandle.__slots__}
        return ReceiptHandle(**{**words, **changes})

    handles = [other(offset=1), other(queue_id=3), other(offset=9), other(mark=1)]
    results = await stage.broker.pop.ack(GROUP, "orders", handles)

    assert list(results) == [AckResult.UNKNOWN] * 4
    assert stage.broker.pop.in_flight(GROUP, "orders", 0) == 1


async def test_what_could_not_be_delivered_is_back_in_a_second(stage: PopStage) -> None:
    member = stage.member(invisible_ms=10 * MINUTE_MS)
    await stage.send(b"cancelled")
    popped = await member.try_pop()

    stage.broker.pop.give_back(popped, GROUP)
    await stage.pass_time(999)
    before = await member.bodies()
    await stage.pass_time(1)

    assert (before, await member.bodies()) == ([], [b"cancelled"])


# Held pops


async def test_a_held_pop_wakes_with_a_message_and_only_one_does(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(b"old")
    await member.ack_all(await member.pop())
    first, second = await member.hold(), await member.hold()

    await stage.send(b"new", queue_id=2)
    (message,) = await first
    await settle()

    assert message.body == b"new"
    assert not second.done()
    assert stage.broker.pop.held_count(GROUP, "orders") == 1
    await stage.pass_time(20 * SECOND_MS)
    assert await second == []
    assert stage.broker.pop.held_count(GROUP, "orders") == 0


async def test_a_held_pop_wakes_with_a_message_that_comes_again(stage: PopStage) -> None:
    member = stage.member(invisible_ms=5 * SECOND_MS)
    await stage.send(b"again")
    await member.pop()
    held = await member.hold()

    await stage.pass_time(5 * SECOND_MS)
    (message,) = await held

    assert (message.body, message.attempt) == (b"again", 2)


async def test_a_held_pop_that_is_cancelled_pops_nothing(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(b"old")
    await member.ack_all(await member.pop())
    held = await member.hold()

    held.cancel()
    await asyncio.wait([held])
    await stage.send(b"new")

    assert stage.broker.pop.held_count(GROUP, "orders") == 0
    (message,) = await member.pop()
    assert (message.body, message.attempt) == (b"new", 1)


async def test_a_notification_says_that_there_is_something_and_pops_nothing(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(b"old")
    await member.ack_all(await member.pop())
    ask = PopAsk(GROUP, "orders")
    assert await stage.broker.pop.has_message(ask, 0) is PopStatus.NOTHING
    told = asyncio.get_running_loop().create_task(stage.broker.pop.has_message(ask, 20_000))
    await settle()

    await stage.send(b"new")

    assert await told is PopStatus.FOUND
    assert await stage.broker.pop.has_message(ask, 0) is PopStatus.FOUND
    assert await member.bodies() == [b"new"]


async def test_a_broker_that_stops_refuses_held_pops(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(b"old")
    await member.ack_all(await member.pop())
    held = await member.hold()

    await stage.restart()

    with pytest.raises(ServiceNotAvailable):
        await held


# Filters, retries, dead letters


def plain_draft(body: bytes) -> Draft:
    return Draft("orders", 0, body, "", 0, 0, 0, HOST, HOST)


def by_tag(tag: str) -> PopFilter:
    code = java_hash(tag)
    return PopFilter(tags=lambda tags_code: tags_code == code, expression=tag)


@pytest.mark.row("PO-12")
async def test_filtered_messages_are_passed_over_for_good(stage: PopStage) -> None:
    member = stage.member(wanted=by_tag("paid"))
    await stage.send(b"a", b"b", TAGS="new")
    await stage.send(b"c", TAGS="paid")
    await stage.send(b"d", TAGS="new")

    messages = await member.pop()
    await member.ack_all(messages)
    rest = await member.bodies()
    await settle()

    assert [message.body for message in messages] == [b"c"]
    assert rest == []
    assert stage.progress() == 4
    assert await stage.member().bodies() == []


@pytest.mark.row("PO-12")
async def test_a_held_pop_sleeps_over_what_its_filter_does_not_want(stage: PopStage) -> None:
    member = stage.member(wanted=by_tag("paid"))
    await stage.send(b"old", TAGS="paid")
    await member.ack_all(await member.pop())
    held = await member.hold()

    await stage.send(b"unwanted", TAGS="new")
    await settle()
    assert not held.done()
    await stage.send(b"wanted", TAGS="paid")

    assert [message.body for message in await held] == [b"wanted"]


@pytest.mark.row("PO-03", "PO-12")
async def test_retries_are_filtered_too(stage: PopStage) -> None:
    member = stage.member(invisible_ms=SECOND_MS)
    await stage.send(b"a", TAGS="new")
    await stage.send(b"b", TAGS="paid")
    await member.pop()
    await stage.pass_time(SECOND_MS)

    assert await member.bodies(wanted=by_tag("paid")) == [b"b"]


@pytest.mark.row("PO-07")
@pytest.mark.parametrize("retries", [0, 1, 3, 16])
async def test_a_message_is_a_dead_letter_after_its_last_attempt_once(stage: PopStage, retries: int) -> None:
    stage.broker.groups.table.put(SubscriptionGroupConfig(group_name=GROUP, retry_max_times=retries))
    member = stage.member(invisible_ms=SECOND_MS, buries=True)
    await stage.send(b"poison", KEYS="k")
    attempts: list[int] = []
    unique_id = ""
    for _ in range(retries + 1):
        (message,) = await aeventually(member.pop)
        attempts.append(message.attempt)
        unique_id = message.properties["UNIQ_KEY"]
        await stage.pass_time(SECOND_MS)

    last = await member.try_pop()
    await stage.pass_time(MINUTE_MS)

    assert attempts == list(range(1, retries + 2))
    assert (last.status, last.parts) == (PopStatus.NO_MATCH, [])
    (dead,) = await stage.connect().stored(DEAD)
    assert dead.reconsume_times == retries + 2
    properties = dict(item.split("\x01") for item in dead.properties.rstrip("\x02").split("\x02"))
    assert properties["DLQ_ORIGIN_TOPIC"] == properties["RETRY_TOPIC"] == "orders"
    assert properties["DLQ_ORIGIN_MESSAGE_ID"] == properties["UNIQ_KEY"] == unique_id
    assert await member.bodies() == []
    assert stage.broker.topics.configs[DEAD].perm == 6
    assert stage.broker.topics.configs[DEAD].read_queue_nums == 1


@pytest.mark.row("PO-07")
async def test_a_client_buries_a_message_once(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(b"poison")
    (message,) = await member.pop()

    results = [await member.bury(message), await member.bury(message)]
    await stage.pass_time(MINUTE_MS)

    assert results == [AckResult.OK, AckResult.OK]
    assert [dead.body for dead in await stage.connect().stored(DEAD)] == [b"poison"]
    assert await member.bodies() == []
    assert await member.bury(message) is AckResult.EXPIRED


@pytest.mark.row("PO-09")
async def test_the_retry_topic_has_one_queue_and_its_name_is_the_groups_and_the_topics(
    stage: PopStage,
) -> None:
    member = stage.member(invisible_ms=SECOND_MS)
    await stage.send(b"again")
    await member.pop()
    await stage.pass_time(SECOND_MS)

    config = stage.broker.topics.configs[RETRY]
    assert (config.perm, config.read_queue_nums, config.write_queue_nums) == (6, 1, 1)
    assert "%RETRY%readers" not in stage.broker.topics.configs


@pytest.mark.row("PO-10")
async def test_neither_retries_nor_a_busy_topic_starve_the_other(stage: PopStage) -> None:
    member = stage.member(invisible_ms=60 * MINUTE_MS, count_max=2)
    await stage.send(*[b"failed %d" % number for number in range(20)])
    for _ in range(10):
        await member.pop(invisible_ms=SECOND_MS)
    await stage.pass_time(SECOND_MS)
    await stage.send(*[b"new %d" % number for number in range(60)])

    pops = [await member.bodies() for _ in range(20)]

    retried = sum(body.startswith(b"failed") for bodies in pops for body in bodies)
    fresh = sum(body.startswith(b"new") for bodies in pops for body in bodies)
    assert (retried, fresh) == (8, 32)


@pytest.mark.row("PO-08")
@pytest.mark.parametrize(
    ("delays_ms", "expected_ms"),
    [
        # The default of a group: what an SDK asks for after the first failures.
        (DEFAULT_RETRY_POLICY.delays_ms[:3], [1_000, 5_000, 10_000]),
        ([ExponentialRetryPolicy().initial * 2**times for times in range(3)], [5_000, 10_000, 20_000]),
        # Node's SDK asks for no time at all.
        ([0, 0, 0], [1_000, 1_000, 1_000]),
    ],
    ids=["list", "exponential", "none"],
)
async def test_a_message_that_fails_comes_again_when_its_client_says(
    stage: PopStage, delays_ms: list[int], expected_ms: list[int]
) -> None:
    member = stage.member(invisible_ms=MINUTE_MS)
    await stage.send(b"fails")
    attempts = []
    for delay_ms, waits_ms in zip(delays_ms, expected_ms, strict=True):
        (message,) = await member.pop()
        attempts.append(message.attempt)
        await member.changed(message, delay_ms)
        await stage.pass_time(waits_ms - 1)
        assert await member.bodies() == []
        await stage.pass_time(1)

    assert attempts == [1, 2, 3]
    assert await member.bodies() == [b"fails"]


# Where a group begins, and how far it is


@pytest.mark.row("PO-11")
async def test_a_new_group_on_a_young_queue_begins_with_its_first_message(stage: PopStage) -> None:
    await stage.send(b"a", b"b")

    assert await stage.member().bodies() == [b"a", b"b"]
    assert await stage.member("others", from_min=True).bodies() == [b"a", b"b"]


@pytest.mark.row("PO-11")
async def test_a_new_group_on_an_old_queue_begins_with_its_last_message(tmp_path: Path) -> None:
    async with pop_stage(tmp_path, access_message_in_memory_max_ratio=0) as stage:
        await stage.send(b"a", b"b", b"c")

        assert await stage.member().bodies() == [b"c"]
        await settle()
        assert stage.progress() == 2
        assert await stage.member("others", from_min=True).bodies() == [b"a", b"b", b"c"]


@pytest.mark.row("PO-11")
async def test_a_group_that_was_a_classic_one_goes_on_where_it_was(stage: PopStage) -> None:
    await stage.send(b"a", b"b", b"c")
    stage.broker.groups.offsets.commit(GROUP, "orders", 0, 2)

    assert await stage.member().bodies() == [b"c"]


@pytest.mark.row("PO-13")
async def test_progress_never_passes_a_message_that_is_not_acknowledged(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(*[b"%d" % number for number in range(5)])
    messages = await member.pop()
    seen = []
    for at in (1, 4, 0, 2, 3):
        await member.ack_all([messages[at]])
        await settle()
        seen.append(stage.progress())

    assert seen == [0, 0, 2, 3, 5]


@pytest.mark.row("PO-14")
async def test_what_waits_and_what_is_in_flight_add_up(stage: PopStage) -> None:
    member, room = stage.member(count_max=3, invisible_ms=SECOND_MS), stage.broker.pop
    await stage.send(*[b"%d" % number for number in range(8)])

    popped = await member.try_pop()
    assert (popped.rest, room.in_flight(GROUP, "orders", 0), room.next_offset(GROUP, "orders", 0)) == (
        5,
        3,
        3,
    )
    await stage.pass_time(SECOND_MS)
    assert (room.in_flight(GROUP, "orders", 0), stage.stored_end(RETRY)) == (0, 3)
    rest = await member.try_pop(count_max=1)
    waiting = rest.rest
    in_flight = sum(room.in_flight(GROUP, topic, 0) for topic in ("orders", RETRY))
    assert waiting + in_flight == 8


@pytest.mark.row("PO-15")
async def test_a_reset_moves_the_next_pop_and_ends_old_handles(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(b"a", b"b", b"c")
    first = await member.pop()
    await stage.pass_time(1)

    stage.broker.pop.reset(GROUP, "orders", 0, 1)
    again = await member.pop()
    stale = await member.ack(first[1])
    await stage.pass_time(MINUTE_MS)

    assert [message.body for message in again] == [b"b", b"c"]
    assert list(stale) == [AckResult.EXPIRED]
    # Only what was popped behind the reset comes again.
    assert sorted(await member.bodies()) == [b"b", b"c"]


# Limits


@pytest.mark.row("PO-12")
async def test_pops_by_records_pass_over_many_messages_turn_by_turn(stage: PopStage) -> None:
    """Only some hundred records are looked at in one turn of the loop, whoever waits."""
    await stage.send(b"first")
    for number in range(2_500):
        stage.broker.store.put(plain_draft(b"unwanted %d" % number))
    await stage.send(b"last")
    wanted = PopFilter(matches=lambda record: b"last" in bytes(record))
    members = [stage.member(f"group-{number}", wanted=wanted) for number in range(3)]

    popped = await asyncio.gather(*[member.pop(20_000) for member in members])

    assert [[message.body for message in messages] for messages in popped] == [[b"last"]] * 3


@pytest.mark.row("PO-25")
async def test_so_many_pops_wait_and_no_more(stage: PopStage) -> None:
    member = stage.member()
    await stage.send(b"old")
    await member.ack_all(await member.pop())
    held = [asyncio.get_running_loop().create_task(member.try_pop(20_000)) for _ in range(1_024)]
    await settle()

    full = await member.try_pop(20_000)
    await stage.pass_time(20_000)
    ends = {(await task).status for task in held}

    assert full.status is PopStatus.HELD_FULL
    assert ends == {PopStatus.NOTHING}


@pytest.mark.row("PO-25")
@pytest.mark.parametrize("setting", ["pop_inflight_message_threshold", "pop_inflight_max"])
async def test_a_queue_of_which_much_is_in_flight_stops_and_goes_on(tmp_path: Path, setting: str) -> None:
    async with pop_stage(tmp_path, **{setting: 32}) as stage:
        member = stage.member()
        await stage.send(*[b"%d" % number for number in range(40)])

        first = await member.pop()
        stopped = await member.try_pop(20_000)
        await member.ack_all(first[:1])
        goes_on = await member.pop()

        assert len(first) == 32
        assert stopped.status is PopStatus.IN_FLIGHT_FULL
        assert len(goes_on) == 8
