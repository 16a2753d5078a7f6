"""POP over remoting, types of topics and shares of queues are answered as by Apache's 5.5.0."""

import asyncio
from pathlib import Path

import pytest
from pop_questions import Told, read_told, tell_pops
from share_questions import tell_shares

from pyromq.testing.cluster import Cluster

GOLDEN = Path(__file__).parent / "golden"
RECORDED = read_told(GOLDEN / "pop_5.5.0.json")
SHARES = read_told(GOLDEN / "shares_5.5.0.json")


@pytest.fixture(scope="module")
def told() -> dict[str, Told]:
    async def tell() -> dict[str, Told]:
        async with Cluster() as cluster:
            return await tell_pops(cluster.broker_addresses[0])

    return asyncio.run(tell())


@pytest.mark.row("PO-21")
@pytest.mark.parametrize("step", RECORDED)
def test_a_step_is_answered_as_by_apache(told: dict[str, Told], step: str) -> None:
    assert told[step] == RECORDED[step]


@pytest.mark.row("PO-21")
def test_the_recording_has_the_whole_story(told: dict[str, Told]) -> None:
    assert list(told) == list(RECORDED)


@pytest.fixture(scope="module")
def shares() -> dict[str, Told]:
    async def tell() -> dict[str, Told]:
        async with Cluster() as cluster:
            return await tell_shares(cluster.broker_addresses[0])

    return asyncio.run(tell())


@pytest.mark.row("PO-23")
@pytest.mark.parametrize("step", SHARES)
def test_a_step_of_an_operator_is_answered_as_by_apache(shares: dict[str, Told], step: str) -> None:
    assert shares[step] == SHARES[step]


@pytest.mark.row("PO-23")
def test_the_recording_has_the_operators_whole_story(shares: dict[str, Told]) -> None:
    assert list(shares) == list(SHARES)
