"""FastStream's brokers for tests: one on a cluster and one under the test broker, started in the same way."""

from typing import Any

from pyromq.faststream import RocketBroker, TestRocketBroker
from pyromq.model import ConsumeFrom

FIRST = ConsumeFrom.FIRST_OFFSET


class Running:
    """Started brokers for the block; those whose `is_test` is true are under one `TestRocketBroker`."""

    def __init__(self, *brokers: Any) -> None:
        self._brokers = brokers
        self._context: Any = TestRocketBroker(*brokers) if brokers[0].is_test else None

    async def __aenter__(self) -> RocketBroker:
        if self._context is not None:
            await self._context.__aenter__()
        for broker in self._brokers:
            await broker.start()
        return self._brokers[0]  # type: ignore[no-any-return]

    async def __aexit__(self, *error: Any) -> None:
        if self._context is not None:
            await self._context.__aexit__(*error)
            return
        for broker in self._brokers:
            await broker.stop()
