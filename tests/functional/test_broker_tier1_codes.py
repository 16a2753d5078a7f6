"""Every tier-1 code of the wire contract is answered: what producers and consumers of all languages need."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.wire_client import WireClient

TO_NAME_SERVER = [105, 103, 104, 322]
TO_BROKER = [
    *(10, 310, 320, 324, 325, 11, 361, 12, 14, 15, 17, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 46),
    *(307, 309),
]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(data_dir=tmp_path) as cluster:
        yield cluster


async def test_a_code_that_nobody_knows_is_told_apart(cluster: Cluster) -> None:
    async with WireClient(cluster.broker_addresses[0]) as client:
        answer = await client.ask(9999)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("code", TO_BROKER)
async def test_the_broker_knows_the_code(cluster: Cluster, code: int) -> None:
    async with WireClient(cluster.broker_addresses[0]) as client:
        # Without its fields it is refused, but by whoever knows it.
        answer = await client.ask(RequestCode(code), {})
    assert answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("code", TO_NAME_SERVER)
async def test_the_name_server_knows_the_code(cluster: Cluster, code: int) -> None:
    async with WireClient(cluster.namesrv_address) as client:
        answer = await client.ask(RequestCode(code), {})
    assert answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
