"""POP over remoting is answered as by Apache's 5.5.0: the same codes, remarks, fields and messages."""

import asyncio
from pathlib import Path

import pytest
from pop_questions import Told, read_told, tell_pops

from pyromq.testing.cluster import Cluster

RECORDED = read_told(Path(__file__).parent / "golden" / "pop_5.5.0.json")


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
