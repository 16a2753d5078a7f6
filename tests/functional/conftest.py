"""A cluster of one broker in this process, with a clock that the test moves, and clients for it.

A module whose tests share a cluster says so with a fixture of the same name.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from client_faces import Face, face_of

from pyromq.testing.cluster import Cluster, ThreadCluster
from pyromq.testing.manual_clock import ManualClock
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


@pytest.fixture(params=["blocking", "asyncio"])
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    """Each face of the client."""
    with face_of(request.param) as face:
        yield face


@pytest.fixture
def address(cluster: Cluster | ThreadCluster) -> str:
    """The name server's."""
    return cluster.namesrv_address


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic that no other test uses."""
    return f"t-{abs(hash(request.node.nodeid))}"


@pytest.fixture
def group(topic: str) -> str:
    return f"g-{topic}"
