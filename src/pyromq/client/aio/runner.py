"""The life of an awaitable client: start and close, carrying plans out, upkeep in a task."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pyromq.client.aio.plain_on_loop import PlainOnLoop, plain_on_loop
from pyromq.client.background_work import Upkeep, akeep_up, upkeep_of
from pyromq.client.client_session import Session, net_settings
from pyromq.client.drivers import Asyncio
from pyromq.client.signing import signer
from pyromq.client.steps import Plan
from pyromq.codes import RequestCode
from pyromq.errors import AlreadyStarted, ClientClosed
from pyromq.net.links import Links
from pyromq.net.routes import RequestTable, Route

T = TypeVar("T")


class Runner:
    """A client's life on one asyncio loop. Loops do not survive `fork`: a child must make a new client.

    `handle` answers the requests of brokers.
    """

    def __init__(
        self,
        name: str,
        new_session: Callable[[], Session],
        upkeep: Upkeep | None = None,
        *,
        handle: RequestTable | None = None,
    ) -> None:
        self._name = name
        self._new_session = new_session
        self._upkeep = upkeep
        self._handle = handle
        self._session: Session | None = None
        self._driver: Asyncio | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        #: The sends that need no plan, while the client is open.
        self.plain_sends: PlainOnLoop | None = None

    @property
    def session(self) -> Session:
        """The session; raises ClientClosed before `start`, after `close`, and in a child of `fork`."""
        session = self._session
        if session is None or self._is_closed or session.identity.pid != os.getpid():
            raise ClientClosed(self._complaint())
        return session

    @property
    def is_started(self) -> bool:
        """Whether it was started and not closed."""
        return self._session is not None and not self._is_closed

    def run(self, plan: Plan[T]) -> Coroutine[Any, Any, T]:
        """Carry out a plan in the caller's task, who awaits it."""
        if self._driver is None or self._is_closed:
            plan.close()
            raise ClientClosed(self._complaint())
        return self._driver.run(plan)

    async def start(self) -> None:
        """Begin, on the running loop."""
        if self._is_closed:
            raise ClientClosed(self._complaint())
        if self._session is not None:
            raise AlreadyStarted(f"{self._name} is started already; start it once")
        self._session = session = self._new_session()
        links = Links(net_settings(session.settings), handle=_with_news(self._handle), name=self._name)
        self._driver = Asyncio(links, signer(session.settings))
        self.plain_sends = plain_on_loop(session, self._driver, links)
        upkeep = upkeep_of(self._session, self._upkeep)
        if upkeep is not None:
            self._task = asyncio.create_task(
                akeep_up(self._driver, self._session, upkeep), name=f"pyromq-{self._name}"
            )

    async def close(self, farewell: Callable[[Session], Plan[None]] | None = None) -> None:
        """End, after a farewell to the brokers. Closing again, or what was not started, does nothing."""
        driver, session = self._driver, self._session
        if self._is_closed or driver is None or session is None:
            self._is_closed = True
            return
        self._is_closed = True
        self.plain_sends = None
        try:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait({self._task})
            if farewell is not None and session.identity.pid == os.getpid():
                await driver.run(farewell(session))
        finally:
            await driver.close()

    def _complaint(self) -> str:
        if self._session is not None and self._session.identity.pid != os.getpid():
            return f"{self._name} was started in another process; make a new one in this one"
        if self._is_closed:
            return f"{self._name} is closed; make a new one"
        return f"{self._name} is not started; await start(), or use it in an `async with` block"


def _with_news(handle: RequestTable | None) -> RequestTable:
    """Return the table, with an entry for the news that a group has changed.

    A broker tells it to whoever sent a heartbeat for the group; a client that shares no queues ignores it.
    """
    table = handle or RequestTable(())
    if RequestCode.NOTIFY_CONSUMER_IDS_CHANGED not in table.codes:
        table.add([Route(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, lambda _: None)])
    return table
