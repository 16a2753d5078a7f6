"""One link to each address, opened on demand, shared by all who talk to it.
The server closes it when it was idle too long; the next request opens a new one.

Whoever asks first for an address starts the connection; the task is stored before it is awaited, so all
others wait for the same one.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyromq.clock import Clock, SystemClock
from pyromq.config.settings import NetSettings
from pyromq.errors import ClientClosed, ConnectFailed
from pyromq.net.address import split_address
from pyromq.net.link import Link, close_all
from pyromq.net.routes import Dispatcher, RequestTable
from pyromq.net.tls import client_context
from pyromq.net.tls_failures import is_of_tls, tls_failure
from pyromq.net.turn import Turn
from pyromq.wire.command import Command

if TYPE_CHECKING:
    from pyromq.wire.signature import Sign

#: How long `close` waits for servers to take what was written.
CLOSE_GRACE_S = 0.5


class Links:
    """Requests to many servers, signed if `sign` is given. Those that they send to us `handle` answers."""

    def __init__(
        self,
        settings: NetSettings,
        *,
        handle: RequestTable | None = None,
        clock: Clock | None = None,
        name: str = "client",
        sign: "Sign | None" = None,
    ) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._context = client_context(settings)
        self._dispatch = Dispatcher(
            handle or RequestTable(()), name=name, requests_under_way_max=settings.requests_under_way_max
        )
        self._turn = Turn()
        self._links: dict[str, Link] = {}
        self._opening: dict[str, asyncio.Task[Link]] = {}
        self._is_closed = False
        self._sign = sign

    @property
    def open_links(self) -> dict[str, Link]:
        """The links that are open, by address; always the same dictionary."""
        return self._links

    def offer_answers(self, take: Callable[[Sequence[Link]], bool]) -> None:
        """Offer what links receive to `take` before it becomes commands; it returns whether it took some."""
        self._turn.shortcut = take

    async def request(self, address: str, command: Command, timeout_s: float) -> Command:
        """Send a request and return its answer, whatever its code; `timeout_s` covers the connecting too.

        Raises ConnectFailed, ConnectionLost or RequestTimeout.
        """
        if self._sign is not None:
            self._sign(command)
        link = self._links.get(address)
        if link is not None and not link.closed:
            return await link.request(command, timeout_s)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        link = await self.link(address, timeout_s)
        return await link.request(command, max(deadline - loop.time(), 0.0))

    async def oneway(self, address: str, command: Command, timeout_s: float) -> None:
        """Send a request that wants no answer; `timeout_s` is for the connecting, and again for room."""
        if self._sign is not None:
            self._sign(command)
        link = await self.link(address, timeout_s)
        await link.room(timeout_s)
        link.oneway(command)

    async def link(self, address: str, timeout_s: float) -> Link:
        """Return the link to an address, opened if it is not."""
        if self._is_closed:
            raise ClientClosed("these links are closed; make new ones")
        link = self._links.get(address)
        if link is not None and not link.closed:
            return link
        opening = self._opening.get(address)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._open(address))
            self._opening[address] = opening
            opening.add_done_callback(lambda task: self._opened(address, task))
        try:
            # Shielded: others wait for the same connection, and one who gives up must not end it for them.
            # Not by `wait_for`: until Python 3.12 it loses a cancellation that comes with the result.
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(opening)
        except TimeoutError as error:
            raise ConnectFailed(f"no connection to {address} within {timeout_s:.1f} s") from error

    def drop(self, address: str) -> None:
        """Close the link to an address, if there is one; the next request opens a new one."""
        link = self._links.pop(address, None)
        if link is not None:
            link.close()

    async def close(self) -> None:
        """Close all links; what is awaited on them fails with ConnectionLost."""
        self._is_closed = True
        opening = tuple(self._opening.values())
        for task in opening:
            task.cancel()
        if opening:
            await asyncio.wait(opening)
        await close_all(self._links.values(), CLOSE_GRACE_S)

    async def _open(self, address: str) -> Link:
        host, port = split_address(address)
        loop = asyncio.get_running_loop()
        timeout_s = self._settings.connect_timeout_millis / 1000
        try:
            async with asyncio.timeout(timeout_s):
                _, link = await loop.create_connection(self._new_link, host, port, ssl=self._context)
        except TimeoutError as error:
            raise ConnectFailed(f"no connection to {address} within {timeout_s:.1f} s") from error
        except OSError as error:
            if self._context is not None and is_of_tls(error):
                raise tls_failure(address, error) from error
            raise ConnectFailed(f"no connection to {address}: {error.strerror or error}") from error
        return link

    def _opened(self, address: str, task: asyncio.Task[Link]) -> None:
        del self._opening[address]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            return
        link = task.result()
        if self._is_closed:
            link.close()
        elif not link.closed:
            self._links[address] = link

    def _new_link(self) -> Link:
        return Link(
            self._settings,
            turn=self._turn,
            clock=self._clock,
            on_request=self._dispatch,
            on_end=self._forget,
            is_caller=True,
        )

    def _forget(self, link: Link) -> None:
        for address, known in tuple(self._links.items()):
            if known is link:
                del self._links[address]
