"""A producer's plain sends over a connection that is a list: what leaves it, and what becomes of answers."""

import asyncio
from typing import Any

from client_stage import Stage, two_brokers
from list_transport import ListTransport

from pyromq.client.client_session import Session
from pyromq.client.plans.route_plans import publish_route
from pyromq.client.producer.plain_teaching import PlainSendTeacher
from pyromq.config.settings import ClientSettings, NetSettings
from pyromq.model import Message
from pyromq.net.link import Link
from pyromq.net.turn import Turn


class PlainStage:
    """Brokers a and b are at the other end of one link; needs a running loop."""

    def __init__(self, settings: ClientSettings | None = None, *, topic: str = "orders") -> None:
        self.stage: Stage = two_brokers()
        self.session: Session = self.stage.session(settings)
        self.stage.run(publish_route(self.session, topic, self.session.deadline(None, 3_000)))
        self.links: dict[str, Any] = {}
        self.teacher = PlainSendTeacher(self.session, self.links)
        self.kernel = self.teacher.kernel
        turn = Turn()
        turn.shortcut = self.kernel.take_answers
        self.transport = ListTransport()
        self.link = Link(
            NetSettings(),
            turn=turn,
            clock=self.session.clock,
            on_request=lambda _link, _command: None,
            on_end=lambda _link: None,
            is_caller=True,
        )
        self.link.connection_made(self.transport)
        for broker in ("a", "b"):
            self.links[f"{broker}:1"] = self.link

    def begin(self, message: Message) -> Any:
        """Begin a send, once it was learnt."""
        loop = asyncio.get_running_loop()
        for _ in range(2):
            begun = self.kernel.begin(
                message, loop.create_future(), self.session.clock.now_ms(), loop.time() + 3, 3.0
            )
            if begun is not None or not self.teacher.learn(message):
                return begun
        return None
