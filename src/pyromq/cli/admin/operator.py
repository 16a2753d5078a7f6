"""Carries out an operator's plans, one after the other."""

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from pyromq.cli.credentials import client_settings
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.session import Session, new_session
from pyromq.client.steps import Deadline, Pause, Plan
from pyromq.client.sync.runner import Runner

T = TypeVar("T")

#: Milliseconds for one question to the name servers and what follows from it.
TIMEOUT_MS = 10_000


class Operator:
    """A client that only asks and orders; `with` starts and ends it."""

    def __init__(self, name_server: str) -> None:
        addresses = name_server_addresses(name_server)
        self._runner = Runner("admin", partial(new_session, "", addresses, client_settings()))

    def run(self, make: Callable[[Session, Deadline], Plan[T]]) -> T:
        """Carry out a plan with a time budget of its own."""
        session = self._runner.session
        return self._runner.run(make(session, session.deadline(None, TIMEOUT_MS)))

    def pause(self, seconds: float) -> None:
        """Let time pass."""

        def wait() -> Plan[None]:
            yield Pause(seconds)

        self._runner.run(wait())

    def __enter__(self) -> Self:
        self._runner.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()
