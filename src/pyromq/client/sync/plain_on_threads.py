"""Plain sends of many threads: all that go to one broker share a connection (`net/shared_link.py`)."""

import os
import time
from typing import TYPE_CHECKING

from pyromq.client.client_session import Session
from pyromq.client.drivers import Blocking
from pyromq.client.producer.plain_teaching import PlainSendTeacher, may_send_plainly
from pyromq.client.steps import Deadline
from pyromq.errors import NetworkError
from pyromq.model import Message, SendResult
from pyromq.net.blocking import BlockingLinks
from pyromq.net.shared_link import ThreadAnswer
from pyromq.wire.command import Command

if TYPE_CHECKING:
    from pyromq._kernel.client.plain_sends import PlainSend


class PlainOnThreads:
    """The plain sends of one blocking client."""

    def __init__(self, session: Session, driver: Blocking, links: BlockingLinks) -> None:
        self._session = session
        self._driver = driver
        self._links = links
        self._chain = links.chain
        self._teacher = PlainSendTeacher(session, links.shared_links)
        # Bound here, because they are called for each message.
        self._begin = self._teacher.kernel.begin
        self._now_ms = session.clock.now_ms
        self._pid = session.identity.pid
        self._timeout_ms = session.settings.send_msg_timeout

    def send(self, message: Message, timeout_ms: int | None) -> SendResult | None:
        """Send a message; None when the send is not plain, and is to be made by its plan."""
        timeout_s = (self._timeout_ms if timeout_ms is None else timeout_ms) / 1_000
        if timeout_s <= 0 or os.getpid() != self._pid:
            return None
        answer, give_up_at = ThreadAnswer(self._chain), time.monotonic() + timeout_s
        begun = self._begin(message, answer, self._now_ms(), give_up_at, timeout_s)
        if begun is None:
            if not self._teacher.learn(message):
                return None
            begun = self._begin(message, answer, self._now_ms(), give_up_at, timeout_s)
            if begun is None:
                return None
        if begun.frame is None:
            return self._send_and_open(message, begun)
        outcome = begun.link.wait_for(begun.opaque, answer, give_up_at, timeout_s)
        if outcome.__class__ is SendResult:
            result: SendResult = outcome
            return result
        return self._go_on(message, begun, outcome)

    def _go_on(
        self, message: Message, begun: "PlainSend", outcome: Command | NetworkError | None
    ) -> SendResult:
        """Go on with a send by its plan, from the outcome of the first try on."""
        left_s = begun.give_up_at - time.monotonic()
        deadline = Deadline(self._session.clock, round(begun.timeout_s * 1_000), left_s=left_s)
        return self._driver.run(self._teacher.rest(message, begun, outcome, deadline))

    def _send_and_open(self, message: Message, begun: "PlainSend") -> SendResult:
        """Send by the plan; a broker that answers it is one to have a shared connection to."""
        result = self._go_on(message, begun, None)
        if result.queue == begun.lane.queue:
            left_s = begun.give_up_at - time.monotonic()
            self._links.open_shared(begun.lane.address, left_s, self._teacher.kernel.take_answers)
        return result


def plain_on_threads(session: Session, driver: Blocking, links: BlockingLinks) -> PlainOnThreads | None:
    """Return the plain sends of a client, None where each send needs its plan."""
    return PlainOnThreads(session, driver, links) if may_send_plainly(session) else None
