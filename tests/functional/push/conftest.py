"""A cluster whose delays take a second, topics of four queues, and both faces of the client."""

from collections.abc import Iterator

import pytest

import pyromq
from pyromq import MessageQueue, NoRoute
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(message_delay_level=" ".join(["1s"] * 18)) as cluster:
        yield cluster


@pytest.fixture
def producer(address: str) -> Iterator[pyromq.Producer]:
    with pyromq.Producer("producers", address) as producer:
        yield producer


@pytest.fixture
def queues(producer: pyromq.Producer, address: str, topic: str) -> list[MessageQueue]:
    """The four queues of the test's topic."""
    with pyromq.Admin(address) as admin:
        admin.create_topic(topic, queue_count=4)

    def found() -> list[MessageQueue] | None:
        try:
            queues = producer.queues(topic)
        except NoRoute:
            return None
        return queues if len(queues) == 4 else None

    return eventually(found)
