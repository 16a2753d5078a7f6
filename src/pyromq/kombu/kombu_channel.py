"""A channel: kombu's exchanges and queues on RocketMQ's topics and groups.

| kombu                                                  | RocketMQ                                      |
| ------------------------------------------------------ | --------------------------------------------- |
| a queue                                                | a topic, and the group that reads it          |
| a direct or topic exchange that is durable             | none: the sender knows who is bound           |
| a shared exchange (fanout, not durable, or named so)   | a topic, which every queue bound to it reads  |
| a temporary queue (exclusive, or deleted by itself)    | none: it reads the exchange from its binding  |
"""

import threading
from collections import deque
from datetime import datetime
from functools import partial
from queue import Empty
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import virtual
from kombu.utils.json import dumps

from pyromq.client.sync.simple_consumer import SimpleConsumer
from pyromq.errors import HandleExpired
from pyromq.kombu.queue_readers import End, GroupReader, Reader, TailReader, Verdict, payload_of
from pyromq.model import ConsumeFrom, Message, MessageQueue, ReceivedMessage


class QoS(virtual.QoS):
    """Prefetch, and the ends of messages."""

    restore_at_shutdown = False

    def ack(self, delivery_tag: str) -> None:
        """Have a message acknowledged, from any thread."""
        self.channel.end(delivery_tag, Verdict.DONE)
        super().ack(delivery_tag)
        self.channel.connection.wake()

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Have a message come again after a second, or make it a dead letter of its queue's group."""
        self.channel.end(delivery_tag, Verdict.AGAIN if requeue else Verdict.DEAD)
        super().ack(delivery_tag)
        self.channel.connection.wake()

    def restore_unacked(self) -> list[Any]:
        """Give back all that is not acknowledged."""
        self._flush()
        for delivery_tag in tuple(self._delivered):
            self.channel.end(delivery_tag, Verdict.AGAIN)
        self._delivered.clear()
        return []


class Channel(virtual.Channel):
    """One channel of a connection; `connection` is the transport."""

    QoS = QoS
    supports_fanout = True
    do_restore = False

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._clients = connection.clients
        #: What arrived and was not delivered: queue, payload and what ends it.
        self.inbox: deque[tuple[str, dict[str, Any], End | None]] = deque()
        self._ends: dict[str, End] = {}
        self._readers: dict[str, Reader] = {}
        self._getters: dict[str, SimpleConsumer] = {}
        self._no_ack: set[str] = set()
        self._closing = threading.Lock()

    # Declaring --------------------------------------------------------------------------------------------

    def queue_declare(self, queue: str | None = None, passive: bool = False, **kwargs: Any) -> Any:
        """Make a queue. Only a passive declaration counts its messages, which asks the brokers."""
        declared = super().queue_declare(queue, passive, **kwargs)
        return declared._replace(message_count=self._size(declared.queue)) if passive else declared

    def queue_bind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **kwargs: Any,
    ) -> None:
        """Bind a queue; from a shared exchange it gets what is sent from now on."""
        super().queue_bind(queue, exchange, routing_key, arguments, **kwargs)
        name = exchange or "amq.direct"
        places = self.connection.places.setdefault(queue, {})
        if not self._is_shared(name):
            # Whoever sends puts it into the queue's topic.
            self._new_queue(queue)
            return
        if name in places:
            return
        topic = self._clients.exchange(name)
        places[name] = self._clients.ends(topic)
        if not self._is_temporary(queue):
            self._clients.begin_here(queue, topic)

    def queue_delete(
        self,
        queue: str,
        if_unused: bool = False,
        if_empty: bool = False,
        **kwargs: Any,
    ) -> None:
        """Delete a queue: its topic and its group, with all that is in it."""
        if if_empty and self._size(queue):
            return
        for exchange, routing_key, arguments in list(self.state.queue_bindings(queue)):
            self.queue_unbind(queue, exchange, routing_key, arguments)
        self.state.queue_bindings_delete(queue)
        self._close_reader(queue)
        self.connection.places.pop(queue, None)
        if not self._is_temporary(queue):
            self._clients.delete(queue)
        self.connection.temporary.pop(queue, None)

    def _new_queue(
        self,
        queue: str,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        **kwargs: Any,
    ) -> None:
        is_temporary = bool(exclusive or auto_delete)
        self.connection.temporary[queue] = is_temporary
        if not is_temporary:
            self._clients.queue(queue)

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return self._is_temporary(queue) or bool(self._clients.has_queue(queue))

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        """Do nothing more: a shared exchange is a topic, and who reads it knows what is bound."""

    def _is_temporary(self, queue: str) -> bool:
        return bool(self.connection.temporary.get(queue, False))

    def _is_shared(self, exchange: str) -> bool:
        if exchange in self._clients.terms.shared_exchanges:
            return True
        declared = self.state.exchanges.get(exchange)
        if declared is None:
            # Celery does not declare what it broadcasts to; a worker that listens did.
            if self._clients.has_exchange(exchange):
                return True
            raise ChannelError(
                f"NOT_FOUND: exchange {exchange!r} was not declared on this connection, and no queue is "
                "bound to a shared exchange of that name; declare it first",
                (60, 40),
                "Channel.basic_publish",
                "404",
            )
        return declared["type"] == "fanout" or not declared["durable"]

    # Sending ----------------------------------------------------------------------------------------------

    def basic_publish(self, message: dict[str, Any], exchange: str, routing_key: str, **kwargs: Any) -> Any:
        """Send to a shared exchange's topic, or to the topics of the queues that are bound here."""
        if not exchange or not self._is_shared(exchange):
            return super().basic_publish(message, exchange, routing_key, **kwargs)
        self._inplace_augment_message(message, exchange, routing_key)
        return self._send(self._clients.exchange(exchange), message)

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        self._send(self._clients.queue(queue), message)

    def _put_fanout(self, exchange: str, message: dict[str, Any], routing_key: str, **kwargs: Any) -> None:
        self._send(self._clients.exchange(exchange), message)

    def _send(self, topic: str, message: dict[str, Any]) -> None:
        properties = message["properties"]
        key = properties.get("correlation_id")
        self._clients.send(
            Message(topic, dumps(message).encode(), keys=[key] if key else ()),
            _due(message.get("headers") or {}),
        )

    # Consuming --------------------------------------------------------------------------------------------

    def basic_consume(
        self,
        queue: str,
        no_ack: bool,
        callback: Any,
        consumer_tag: str,
        **kwargs: Any,
    ) -> None:
        """Have a queue read."""
        super().basic_consume(queue, no_ack, callback, consumer_tag, **kwargs)
        (self._no_ack.add if no_ack else self._no_ack.discard)(queue)
        reader = self._readers.get(queue)
        if reader is None:
            self._readers[queue] = self._reader(queue)
        else:
            reader.resume()

    def basic_cancel(self, consumer_tag: str) -> None:
        """Read a queue no more; what was delivered of it may still be acknowledged."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is None or queue in self._active_queues:
            return
        if reader := self._readers.get(queue):
            reader.stop()
        for item in [item for item in self.inbox if item[0] == queue]:
            self.inbox.remove(item)
            if item[2] is not None:
                item[2](Verdict.AGAIN)

    def deliver(self) -> bool:
        """Deliver one message that arrived, if prefetch allows; return whether one was."""
        if not self.inbox or not self._consumers or not self.qos.can_consume():
            return False
        queue, payload, end = self.inbox.popleft()
        if end is not None and queue in self._no_ack:
            end(Verdict.DONE)
        elif end is not None:
            self._ends[payload["properties"]["delivery_tag"]] = end
        self.connection._deliver(payload, queue)
        return True

    def end(self, delivery_tag: str, verdict: Verdict) -> None:
        """Say what becomes of a message; nothing happens the second time."""
        end = self._ends.pop(delivery_tag, None)
        if end is not None:
            end(verdict)

    def close(self) -> None:
        """Give back what is not acknowledged, and leave the groups."""
        if not self.closed:
            for queue in tuple(self._readers):
                self._close_reader(queue)
            for getter in self._getters.values():
                getter.close()
        super().close()

    def _close_reader(self, queue: str) -> None:
        reader = self._readers.pop(queue, None)
        if reader is not None:
            reader.close()

    def _reader(self, queue: str) -> Reader:
        def offer(payload: dict[str, Any], end: End | None) -> None:
            if self._wants(queue, payload):
                self.inbox.append((queue, payload, end))
                self.connection.wake()
            elif end is not None:
                end(Verdict.DONE)

        places: dict[str, dict[MessageQueue, int]] = self.connection.places.get(queue, {})
        if self._is_temporary(queue):
            return TailReader(self._clients, {k: v for one in places.values() for k, v in one.items()}, offer)
        topics = [self._clients.queue(queue), *(self._clients.exchange(exchange) for exchange in places)]
        return GroupReader(self._clients, topics, self.qos.prefetch_count, offer)

    def _wants(self, queue: str, payload: dict[str, Any]) -> bool:
        """Return whether a message of a shared exchange goes to a queue, by the queue's bindings."""
        info = payload["properties"]["delivery_info"]
        exchange = info.get("exchange")
        if not exchange or exchange not in self.connection.places.get(queue, {}):
            return True
        return queue in self._lookup(exchange, info.get("routing_key"))

    # Asking for one ---------------------------------------------------------------------------------------

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        if self._is_temporary(queue):
            raise Empty
        getter = self._getters.get(queue) or self._new_getter(queue)
        invisible_ms = int(self._clients.terms.visibility_timeout * 1_000)
        for message in getter.receive(1, invisible_ms, wait_ms=0):
            payload = payload_of(message)
            if payload is not None:
                tag = payload["properties"]["delivery_tag"]
                self._ends[tag] = partial(_end_received, getter, message)
                return payload
        raise Empty

    def _new_getter(self, queue: str) -> SimpleConsumer:
        topic = self._clients.queue(queue)
        getter = SimpleConsumer(topic, self._clients.terms.name_server, consume_from=ConsumeFrom.FIRST_OFFSET)
        getter.subscribe(topic)
        getter.start()
        self._getters[queue] = getter
        return getter

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """Return the next message of a queue, or None."""
        message = super().basic_get(queue, no_ack, **kwargs)
        if message is not None and no_ack:
            self.end(message.delivery_tag, Verdict.DONE)
        return message

    def _size(self, queue: str) -> int:
        return 0 if self._is_temporary(queue) else int(self._clients.size(queue))

    def _purge(self, queue: str) -> int:
        return 0 if self._is_temporary(queue) else int(self._clients.purge(queue))


def _end_received(getter: SimpleConsumer, message: ReceivedMessage, verdict: Verdict) -> None:
    if verdict is not Verdict.AGAIN:
        getter.ack(message)
        return
    try:
        getter.change_invisible_duration(message, 0)
    except HandleExpired:
        return  # it is another's by now


def _due(headers: dict[str, Any]) -> datetime | None:
    """Return when a task is due, which Celery writes in its headers."""
    text = headers.get("eta")
    if not isinstance(text, str):
        return None
    try:
        due = datetime.fromisoformat(text)
    except ValueError:
        return None
    # Without a time zone it is the application's, which the worker knows: it holds the task.
    return due if due.tzinfo is not None else None
