"""A cluster of one broker in this process, with a clock that the test moves, and a client of bare frames."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.testing.clock import ManualClock
from pyromq.testing.cluster import Cluster
from pyromq.testing.wire_client import WireClient


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def cluster(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Cluster]:
    async with Cluster(data_dir=tmp_path, clock=clock) as cluster:
        yield cluster


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[WireClient]:
    async with WireClient(cluster.broker_addresses[0]) as client:
        yield client
