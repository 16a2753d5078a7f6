from collections.abc import AsyncIterator, Callable

import pytest

from pyromq.faststream import RocketBroker
from pyromq.testing.cluster import Cluster


@pytest.fixture
async def address() -> AsyncIterator[str]:
    async with Cluster() as cluster:
        yield cluster.namesrv_address


@pytest.fixture(params=["a cluster", "the test broker"])
async def make_broker(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., RocketBroker]]:
    """Brokers that are not started; with `Running` they are, in one way or the other."""
    is_test = request.param == "the test broker"

    def maker(address: str) -> Callable[..., RocketBroker]:
        def make(**options: object) -> RocketBroker:
            made = RocketBroker(address, **options)  # type: ignore[arg-type]
            made.is_test = is_test  # type: ignore[attr-defined]
            return made

        return make

    if is_test:
        yield maker("127.0.0.1:1")
        return
    async with Cluster() as cluster:
        yield maker(cluster.namesrv_address)


@pytest.fixture
def broker(make_broker: Callable[..., RocketBroker]) -> RocketBroker:
    return make_broker()
