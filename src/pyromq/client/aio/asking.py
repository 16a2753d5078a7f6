"""A client that asks a cluster many questions, with a limit on those in flight."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar, TypeVarTuple

from pyromq.client.aio.admin import Admin
from pyromq.client.aio.awaitable_face import AwaitableFace
from pyromq.client.client_session import Session
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.plans.dead_letter_plans import new_tools_session
from pyromq.client.steps import Deadline, Plan, ask, must_succeed, request
from pyromq.codes import RequestCode
from pyromq.config.settings import ClientSettings
from pyromq.wire.command import Command
from pyromq.wire.header import Header

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

#: Questions that are in flight at once.
UNDER_WAY_MAX: Final = 16
#: Milliseconds for one plan.
TIMEOUT_MS: Final = 6_000


class Asker(AwaitableFace):
    """A client that asks and orders, for one cluster."""

    def __init__(self, name_server: str, settings: ClientSettings | None = None) -> None:
        self.name_server = name_server
        #: The methods of the admin client.
        self.admin = Admin(name_server, settings)
        addresses = name_server_addresses(name_server, settings)
        self._set_runner("asker", partial(new_tools_session, addresses, settings or ClientSettings()))
        self._places = asyncio.Semaphore(UNDER_WAY_MAX)

    async def start(self) -> None:
        """Begin, on the running loop."""
        await super().start()
        await self.admin.start()

    async def close(self) -> None:
        """Close the connections."""
        await self.admin.close()
        await super().close()

    async def ask(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int | None = None,
    ) -> Command:
        """Ask one server; raise the error for the code of its answer if that is not SUCCESS."""
        timeout_s = (timeout_ms or self._session.settings.mq_client_api_timeout) / 1_000
        async with self._places:
            return must_succeed(await self._runner.run(ask(address, request(code, header, body), timeout_s)))

    async def run(
        self,
        make: Callable[[Session, *Arguments, Deadline], Plan[T]],
        *arguments: *Arguments,
        timeout_ms: int = TIMEOUT_MS,
    ) -> T:
        """Carry out a plan of the client's with a time budget of its own."""
        session = self._session
        async with self._places:
            deadline = session.deadline(None, timeout_ms)
            return await self._runner.run(make(session, *arguments, deadline))

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The name servers' addresses."""
        return tuple(self._session.name_servers.addresses)

    @property
    def account(self) -> str:
        """The account of its requests; empty when they are not signed."""
        return self._session.settings.access_key
