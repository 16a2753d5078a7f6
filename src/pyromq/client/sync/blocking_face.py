"""The base of blocking clients."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from pyromq.client.background_work import Upkeep
from pyromq.client.client_session import Session
from pyromq.client.operations.declaration import BlockingMethods, ClientOperations
from pyromq.client.sync.runner import Runner


class BlockingFace(ClientOperations, BlockingMethods):
    """A client on plain sockets: a declared method blocks the caller while its plan is carried out."""

    _runner: Runner

    def start(self) -> None:
        """Begin; a `with` block does it."""
        self._runner.start()

    def close(self) -> None:
        """Close the connections."""
        self._runner.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _set_runner(
        self, name: str, new_session: Callable[[], Session], upkeep: Upkeep | None = None
    ) -> None:
        self._runner = Runner(name, new_session, upkeep)
