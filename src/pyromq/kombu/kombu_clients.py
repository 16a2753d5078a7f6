"""The clients of one connection of kombu: a producer, an admin, and a loop for those that consume."""

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from pyromq import aio
from pyromq.client.sync.admin import Admin
from pyromq.client.sync.hosted import HostedLoop
from pyromq.client.sync.producer import Producer
from pyromq.client.sync.pull_consumer import PullConsumer
from pyromq.client.sync.simple_consumer import SimpleConsumer
from pyromq.codes import ResponseCode
from pyromq.errors import ConfigError, NoRoute, PopUnsupported, Refused, SendFailed, TopicNotFound
from pyromq.kombu.queue_names import exchange_topic, topic_of
from pyromq.model import ConsumeFrom, Message, MessageQueue

_log = logging.getLogger("pyromq.kombu")

#: The group of what only sends or looks.
GROUP: Final = "kombu"
#: Asked for one message to learn whether brokers know POP; it never takes one of a queue's own group.
PROBE_GROUP: Final = "kombu-probe"
#: Refusals of timed messages: the broker is too old, its timers are off (Apache's 5.x says SYSTEM_ERROR),
#: or the time is too far away. Workers hold a task then until its time has come.
_NO_TIMES: Final = (
    ResponseCode.VERSION_NOT_SUPPORTED,
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.MESSAGE_ILLEGAL,
)


@dataclass(frozen=True, slots=True)
class TransportTerms:
    """The transport options of a connection."""

    name_server: str
    #: Seconds until another worker gets what a lost one had. Renewed while a worker has it.
    visibility_timeout: float = 60
    #: "pop", "pull", or "auto": pop where the brokers know it.
    mode: str = "auto"
    topic_prefix: str = ""
    #: RocketMQ queues of each topic that is made for a queue.
    topic_queues: int = 8
    #: Tries after which a message is a dead letter of its queue's group.
    max_deliveries: int = 16
    #: Exchanges that are a topic of their own, beside those that are fanout or not durable.
    shared_exchanges: tuple[str, ...] = ("celeryev",)

    @classmethod
    def of(cls, name_server: str, options: Mapping[str, Any]) -> "TransportTerms":
        """Return the terms that options name; kombu's other options are left alone."""
        known = {name: options[name] for name in cls.__dataclass_fields__ if name in options}
        if "shared_exchanges" in known:
            known["shared_exchanges"] = tuple(known["shared_exchanges"])
        terms = cls(**{"name_server": name_server} | known)
        if terms.mode not in ("auto", "pop", "pull"):
            raise ConfigError(f'transport option mode is {terms.mode!r}; it must be "auto", "pop" or "pull"')
        if not 5 <= terms.visibility_timeout <= 300:
            raise ConfigError(
                f"transport option visibility_timeout is {terms.visibility_timeout}; it may be 5 to 300 s: "
                "it is renewed while a worker has a task, so it need not be as long as a task"
            )
        return terms


class KombuClients:
    """Started when they are needed, closed together."""

    def __init__(self, terms: TransportTerms) -> None:
        self.terms = terms
        self._closing = ExitStack()
        self._topics: set[str] = set()
        self._has_times = True

    @cached_property
    def admin(self) -> Admin:
        """The admin client."""
        return self._closing.enter_context(Admin(self.terms.name_server))

    @cached_property
    def producer(self) -> Producer:
        """The producer."""
        return self._closing.enter_context(Producer(GROUP, self.terms.name_server))

    @cached_property
    def loop(self) -> HostedLoop:
        """The loop of the consumers."""
        loop = HostedLoop("kombu")
        loop.start()
        self._closing.callback(loop.close)
        return loop

    @cached_property
    def tails(self) -> aio.PullConsumer:
        """The client that reads shared exchanges for temporary queues."""
        tails = aio.PullConsumer(GROUP, self.terms.name_server, auto_commit=False)
        self.loop.run(tails.start())
        self._closing.callback(lambda: self.loop.run(tails.close()))
        return tails

    @cached_property
    def does_pop(self) -> bool:
        """Whether messages are popped; asked of the brokers once, unless the options say it."""
        if self.terms.mode != "auto":
            return self.terms.mode == "pop"
        topic = self.exchange("probe")
        with SimpleConsumer(PROBE_GROUP, self.terms.name_server) as probe:
            probe.subscribe(topic)
            try:
                probe.receive(1, wait_ms=0)
            except (PopUnsupported, Refused) as error:
                # Apache's 5.x refuses pops while its timers are off.
                _log.warning("queues are pulled, because the brokers do not pop: %s", error)
                return False
        return True

    def close(self) -> None:
        """Close all that was started."""
        self._closing.close()

    # Topics -----------------------------------------------------------------------------------------------

    def queue(self, queue: str) -> str:
        """Return the topic of a queue, and make it if it is not there."""
        return self._made(topic_of(queue, self.terms.topic_prefix), self.terms.topic_queues)

    def exchange(self, exchange: str) -> str:
        """Return the topic of a shared exchange, and make it if it is not there."""
        return self._made(exchange_topic(exchange, self.terms.topic_prefix), 1)

    def has_queue(self, queue: str) -> bool:
        """Return whether a queue has a topic."""
        return self._is_there(topic_of(queue, self.terms.topic_prefix))

    def has_exchange(self, exchange: str) -> bool:
        """Return whether a shared exchange has a topic."""
        return self._is_there(exchange_topic(exchange, self.terms.topic_prefix))

    def ends(self, topic: str) -> dict[MessageQueue, int]:
        """Return where a topic ends now."""
        return {place: found.max_offset for place, found in self.admin.topic_status(topic).items()}

    def begin_here(self, queue: str, topic: str) -> None:
        """Have a queue's group begin with what is sent to a topic from now on, unless it began before."""
        group = topic_of(queue, self.terms.topic_prefix)
        # An offset of 0 says nothing: brokers say it of new groups too.
        if group in self.admin.topic_readers(topic):
            return
        with PullConsumer(group, self.terms.name_server, auto_commit=False) as reader:
            for place, end in self.ends(topic).items():
                reader.commit(place, end)

    def size(self, queue: str) -> int:
        """Return how many messages a queue's group has not acknowledged."""
        name = topic_of(queue, self.terms.topic_prefix)
        ends = self.ends(name)
        with PullConsumer(name, self.terms.name_server, auto_commit=False) as reader:
            return sum(end - (reader.committed(place) or 0) for place, end in ends.items())

    def purge(self, queue: str) -> int:
        """Acknowledge all messages that wait in a queue, and return how many."""
        name, count = self.queue(queue), 0
        begin = ConsumeFrom.FIRST_OFFSET
        with SimpleConsumer(name, self.terms.name_server, consume_from=begin) as consumer:
            consumer.subscribe(name)
            while messages := consumer.receive(wait_ms=0):
                consumer.ack(messages)
                count += len(messages)
        return count

    def delete(self, queue: str) -> None:
        """Delete a queue's topic and its group."""
        name = topic_of(queue, self.terms.topic_prefix)
        self._topics.discard(name)
        self.admin.delete_topic(name)
        self.admin.delete_group(name, removes_offsets=True)

    def _made(self, topic: str, queues: int) -> str:
        if not self._is_there(topic):
            self.admin.create_topic(topic, queues)
            self._topics.add(topic)
        return topic

    def _is_there(self, topic: str) -> bool:
        if topic not in self._topics:
            try:
                self.admin.route(topic)
            except TopicNotFound:
                return False
            self._topics.add(topic)
        return True

    # Sending ----------------------------------------------------------------------------------------------

    def send(self, message: Message, due: datetime | None) -> None:
        """Send a message, to be delivered when it is due."""
        if due is not None and self._has_times and due > datetime.now(UTC):
            message.deliver_at = due
            try:
                self.producer.send(message)
            except (Refused, SendFailed) as error:
                refusal = error.__cause__ if isinstance(error, SendFailed) else error
                if not isinstance(refusal, Refused) or refusal.code not in _NO_TIMES:
                    raise
                self._has_times = refusal.code == ResponseCode.MESSAGE_ILLEGAL
                _log.warning("a task with an ETA is sent at once, and its worker holds it: %s", refusal)
                message.deliver_at = None
            else:
                return
        self.producer.send(message)


def must_start(clients: KombuClients) -> None:
    """Raise NoRoute, or what the network says, when there is no name server, or it knows no broker."""
    if not clients.admin.cluster().broker_addr_table:
        raise NoRoute(
            f"the name server {clients.terms.name_server} knows no broker: start one, or wait for it"
        )
