"""What the parts of one push consumer share: who it is, what it wants, which queues it has."""

import asyncio
from dataclasses import dataclass, field

from pyromq.client.drivers import Asyncio
from pyromq.client.namespaces import unwrap
from pyromq.client.push.delivery import ConsumeModel, ConsumeOrder
from pyromq.client.push.figures import Figures
from pyromq.client.push.flow import Limits, limits
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.client.push.progress import Progress
from pyromq.client.push.subscriptions import retry_topic
from pyromq.client.session import Session
from pyromq.model import ConsumeFrom, MessageQueue, ReceivedMessage
from pyromq.wire import properties as names
from pyromq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerPart,
    ConsumeType,
    MessageModel,
    Subscription,
)

_MODELS = {
    ConsumeModel.CLUSTERING: MessageModel.CLUSTERING,
    ConsumeModel.BROADCASTING: MessageModel.BROADCASTING,
}
STARTS = {
    ConsumeFrom.LAST_OFFSET: ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    ConsumeFrom.FIRST_OFFSET: ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    ConsumeFrom.TIMESTAMP: ConsumeFromWhere.CONSUME_FROM_TIMESTAMP,
}
#: Tries of a message when the settings leave it open; in order there is no end.
TIMES_MAX = 16
TIMES_MAX_IN_ORDER = 2**31 - 1


@dataclass(slots=True)
class Member:
    """One started consumer. Its subscriptions are the engine's own table, which may change under way."""

    session: Session
    driver: Asyncio
    model: ConsumeModel
    order: ConsumeOrder
    consume_from: ConsumeFrom
    start_ms: int
    subscriptions: dict[str, Subscription]
    progress: Progress
    figures: Figures = field(default_factory=Figures)
    queues: dict[MessageQueue, ProcessQueue] = field(default_factory=dict)
    #: Set while the consumer is not suspended.
    is_resumed: asyncio.Event = field(default_factory=asyncio.Event)
    #: Set when a broker says that it does not know what this member wants.
    is_unknown: asyncio.Event = field(default_factory=asyncio.Event)
    #: Set whenever messages left a queue: one that was too full may have room.
    has_room: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_clustering(self) -> bool:
        """Whether the group's members share the queues."""
        return self.model is ConsumeModel.CLUSTERING

    @property
    def is_orderly(self) -> bool:
        """Whether messages of one queue are handled one after the other."""
        return self.order is ConsumeOrder.ORDERLY

    @property
    def limits(self) -> Limits:
        """What of each queue may wait here."""
        return limits(self.session.settings, len(self.queues))

    @property
    def times_max(self) -> int:
        """How often a message is tried again."""
        wanted = self.session.settings.max_reconsume_times
        if wanted != -1:
            return wanted
        return TIMES_MAX_IN_ORDER if self.is_orderly else TIMES_MAX

    def now_ms(self) -> int:
        """Return the time."""
        return self.session.clock.now_ms()

    def part(self, *changed: Subscription) -> ConsumerPart:
        """Return what heartbeats say of this member; `changed` is what it wants from now on."""
        wanted = self.subscriptions | {one.topic: one for one in changed}
        return ConsumerPart(
            group_name=self.session.group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=_MODELS[self.model],
            consume_from_where=STARTS[self.consume_from],
            subscriptions=sorted(wanted.values(), key=lambda one: one.topic),
            unit_mode=self.session.settings.unit_mode,
        )

    def restore_topics(self, messages: list[ReceivedMessage]) -> None:
        """Give messages that come again their first topic's name, as the application knows it."""
        own, namespace = retry_topic(self.session.group), self.session.settings.namespace
        for message in messages:
            if message.topic == own:
                message.topic = message.properties.get(names.RETRY_TOPIC, own)
            if namespace:
                message.topic = unwrap(namespace, message.topic)

    def finish(self, state: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Let messages of a queue go, and the group's progress with them."""
        offset = state.remove(messages, self.now_ms())
        if offset is not None and not state.is_dropped:
            self.progress.offsets.rise(state.queue, offset)
        self.has_room.set()
