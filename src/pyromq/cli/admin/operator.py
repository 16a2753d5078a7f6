"""Carries out an operator's plans, one after the other."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from pyromq.cli.credentials import client_settings
from pyromq.client.client_session import Session, new_session
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.operations.declaration import Operation
from pyromq.client.steps import Deadline, Pause, Plan
from pyromq.client.sync.blocking_face import BlockingFace

T = TypeVar("T")

#: Milliseconds for one question to the name servers and what follows from it.
TIMEOUT_MS = 10_000


class Operator(BlockingFace):
    """A client that only asks and orders; `with` starts and ends it."""

    def __init__(self, name_server: str) -> None:
        addresses = name_server_addresses(name_server)
        self._set_runner("admin", partial(new_session, "", addresses, client_settings()))

    def run(self, make: Callable[[Session, Deadline], Plan[T]]) -> T:
        """Carry out a plan with a time budget of its own."""
        session = self._session
        return self._runner.run(make(session, session.deadline(None, TIMEOUT_MS)))

    @Operation
    def pause(self, seconds: float) -> Plan[None]:
        """Let time pass."""
        yield Pause(seconds)
