"""A real etcd for all tests of a worker; each test has a prefix of its own."""

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
from etcd import EtcdServer, running_etcd

from pyromq.broker.failover.endpoints import read_endpoints
from pyromq.broker.failover.etcd_client import EtcdClient


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture
async def etcd(server: EtcdServer) -> AsyncIterator[EtcdClient]:
    client = EtcdClient(read_endpoints(server.address), answer_s=5.0)
    yield client
    await client.close()


@pytest.fixture
def prefix() -> str:
    return f"/test/{uuid.uuid4().hex}/"
