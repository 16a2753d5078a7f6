"""Plain sends on an asyncio loop: their frames leave with those of the turn, their answers wake futures."""

import asyncio
import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from pyromq.client.client_session import Session
from pyromq.client.drivers import Asyncio
from pyromq.client.producer.plain_teaching import PlainSendTeacher, may_send_plainly
from pyromq.client.steps import Deadline
from pyromq.errors import PyroError
from pyromq.model import Message, SendResult
from pyromq.net.links import Links
from pyromq.wire.command import Command

if TYPE_CHECKING:
    from pyromq._kernel.client.plain_sends import PlainSend


class PlainOnLoop:
    """The plain sends of one awaitable client."""

    def __init__(self, session: Session, driver: Asyncio, links: Links) -> None:
        self._session = session
        self._driver = driver
        self._links = links
        self._teacher = PlainSendTeacher(session, links.open_links)
        links.offer_answers(self._teacher.kernel.take_answers)
        self._loop = asyncio.get_running_loop()
        # Bound here, because they are called for each message.
        self._begin = self._teacher.kernel.begin
        self._create_future = self._loop.create_future
        self._time = self._loop.time
        self._now_ms = session.clock.now_ms
        self._pid = session.identity.pid
        self._timeout_ms = session.settings.send_msg_timeout

    def begin(self, message: Message, timeout_ms: int | None) -> "PlainSend | None":
        """Begin a send; None when it is not plain, and is to be sent by its plan."""
        timeout_s = (self._timeout_ms if timeout_ms is None else timeout_ms) / 1_000
        if timeout_s <= 0 or os.getpid() != self._pid:
            return None
        give_up_at = self._time() + timeout_s
        begun = self._begin(message, self._create_future(), self._now_ms(), give_up_at, timeout_s)
        if begun is None and self._teacher.learn(message):
            begun = self._begin(message, self._create_future(), self._now_ms(), give_up_at, timeout_s)
        return begun

    def go_on(
        self, message: Message, begun: "PlainSend", outcome: Command | PyroError | None
    ) -> Coroutine[Any, Any, SendResult]:
        """Go on with a send by its plan, from the outcome of the first try on."""
        deadline = Deadline(
            self._session.clock,
            round(begun.timeout_s * 1_000),
            left_s=begun.give_up_at - self._time(),
        )
        return self._driver.run(self._teacher.rest(message, begun, outcome, deadline))


def plain_on_loop(session: Session, driver: Asyncio, links: Links) -> PlainOnLoop | None:
    """Return the plain sends of a client, None where each send needs its plan."""
    return PlainOnLoop(session, driver, links) if may_send_plainly(session) else None
