"""The last question about a transaction has its interval: an answer within it is taken."""

import asyncio
from pathlib import Path

import pytest
from kinds_stage import ManualStage, Peer, after_a_crash, running_stage
from transaction_steps import (
    COMMIT,
    GROUP,
    HALF,
    INTERVAL_MS,
    ROLLBACK,
    answer_check,
    await_checks,
    send_half,
)

from pyromq.broker.kinds.transaction_checks import TURN_HALVES_MAX
from pyromq.codes import RequestCode, ResponseCode
from pyromq.system_names import TRANSACTION_GROUP
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command

GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"


async def await_pass(stage: ManualStage, passes: int) -> None:
    """Wait until a pass over the half queue has ended, and has noted its progress."""
    offsets = stage.broker.groups.offsets

    def is_noted() -> bool:
        return (offsets.progress(TRANSACTION_GROUP, HALF, 0) or 0) >= passes

    await aeventually(is_noted, what=f"{passes} passes over the half queue")


async def ask_to_the_last(stage: ManualStage, client: Peer, times: int) -> Command:
    """Let all questions about the one half be asked; return the last, asked by a pass that is over."""
    await client.heartbeat(producer=GROUP)
    for at in range(1, times + 1):
        stage.clock.advance(INTERVAL_MS)
        checks = await await_checks(client, at)
        await await_pass(stage, at)
    assert len(checks) == times
    return checks[-1]


@pytest.mark.row("TX-07")
@pytest.mark.parametrize("times", [1, 2, 15])
async def test_a_commit_that_answers_the_last_question_is_delivered(tmp_path: Path, times: int) -> None:
    """With 15, the default, no setting is touched."""
    settings = {} if times == 15 else {"transaction_check_max": times}
    async with running_stage(tmp_path, **settings) as stage:
        client = stage.connect()
        await send_half(client, b"late")
        last = await ask_to_the_last(stage, client, times)

        stage.clock.advance(INTERVAL_MS - 1)
        answer = await answer_check(client, last, COMMIT)

        assert answer.code == ResponseCode.SUCCESS
        assert [record.body for record in await client.stored("orders", 2)] == [b"late"]
        stage.clock.advance(2 * INTERVAL_MS)
        await await_pass(stage, times + 1)
        assert stage.stored_end(GIVEN_UP) == 0


@pytest.mark.row("TX-07")
@pytest.mark.parametrize("times", [1, 2, 15])
async def test_a_half_is_given_up_when_the_last_question_had_its_interval(tmp_path: Path, times: int) -> None:
    settings = {} if times == 15 else {"transaction_check_max": times}
    async with running_stage(tmp_path, **settings) as stage:
        client = stage.connect()
        await send_half(client, b"never")
        last = await ask_to_the_last(stage, client, times)
        assert stage.stored_end(GIVEN_UP) == 0

        stage.clock.advance(INTERVAL_MS)

        (given_up,) = await client.await_stored(GIVEN_UP)
        assert given_up.body == b"never"
        assert "given up" in ((await answer_check(client, last, COMMIT)).remark or "")
        assert await client.stored("orders", 2) == []
        assert len(client.asked_for(RequestCode.CHECK_TRANSACTION_STATE)) == times


async def test_a_half_behind_those_that_wait_for_their_last_answer_is_asked_about_in_the_next_pass(
    tmp_path: Path,
) -> None:
    async with running_stage(tmp_path, transaction_check_max=1) as stage:
        client = stage.connect()
        await send_half(client, b"first")
        await ask_to_the_last(stage, client, 1)
        await send_half(client, b"second")

        stage.clock.advance(INTERVAL_MS)

        await await_checks(client, 2)
        assert stage.stored_end(GIVEN_UP) == 1


async def test_those_asked_late_in_a_long_pass_have_their_whole_interval_too(tmp_path: Path) -> None:
    """The next pass begins an interval after the long one began, not after it ended."""
    async with running_stage(tmp_path, transaction_check_max=1) as stage:
        client = stage.connect()
        await client.heartbeat(producer=GROUP)
        for _ in range(TURN_HALVES_MAX + 1):
            await send_half(client)
        stage.clock.advance(INTERVAL_MS)
        while stage.stored_end(HALF) <= TURN_HALVES_MAX + 1:  # noqa: ASYNC110 each turn of the loop counts
            await asyncio.sleep(0)
        asked_first = stage.stored_end(HALF) - TURN_HALVES_MAX - 1
        assert asked_first == TURN_HALVES_MAX
        stage.clock.advance(INTERVAL_MS // 2)
        last = (await await_checks(client, TURN_HALVES_MAX + 1))[-1]
        await await_pass(stage, TURN_HALVES_MAX + 1)

        stage.clock.advance(INTERVAL_MS // 2)
        await aeventually(lambda: stage.stored_end(GIVEN_UP) == asked_first)
        stage.clock.advance(INTERVAL_MS // 2 - 1)

        assert (await answer_check(client, last, ROLLBACK)).code == ResponseCode.SUCCESS
        stage.clock.advance(1)
        await await_pass(stage, 2 * TURN_HALVES_MAX + 2)
        assert stage.stored_end(GIVEN_UP) == asked_first


@pytest.mark.row("TX-04", "TX-07")
async def test_the_last_answer_counts_after_a_restart(tmp_path: Path) -> None:
    async with running_stage(tmp_path, transaction_check_max=1) as stage:
        first = stage.connect()
        await send_half(first, b"late")
        last = await ask_to_the_last(stage, first, 1)

        await stage.restart()
        client = stage.connect()
        # The first pass comes an interval after the start.
        stage.clock.advance(INTERVAL_MS - 1)

        assert (await answer_check(client, last, COMMIT)).code == ResponseCode.SUCCESS
        assert [record.body for record in await client.stored("orders", 2)] == [b"late"]


@pytest.mark.row("TX-04", "TX-07")
async def test_the_last_answer_counts_after_a_crash(tmp_path: Path) -> None:
    async with running_stage(tmp_path / "before", transaction_check_max=1) as stage:
        first = stage.connect()
        await send_half(first, b"late")
        last = await ask_to_the_last(stage, first, 1)

        async with after_a_crash(stage, tmp_path / "after") as survivor:
            client = survivor.connect()

            assert (await answer_check(client, last, COMMIT)).code == ResponseCode.SUCCESS
            assert [record.body for record in await client.stored("orders", 2)] == [b"late"]
