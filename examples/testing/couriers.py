"""A small service: parcels are delivered, and a customer who was not at home is reminded a day later."""

from collections.abc import Callable
from datetime import timedelta

from pyromq import Message, Producer, PushConsumer, ReceivedMessage


class Couriers:
    """Delivers the parcels of a topic; what it cannot deliver comes again, and is given up in the end."""

    def __init__(
        self, name_server: str, group: str, *, parcels: str, reminders: str, deliver: Callable[[bytes], bool]
    ) -> None:
        self._deliver = deliver
        self._reminders = reminders
        self._producer = Producer(f"{group}-reminders", name_server)
        self._consumer = PushConsumer(group, name_server, listener=self._handle)
        self._consumer.subscribe(parcels)

    def __enter__(self) -> "Couriers":
        """Begin to deliver."""
        self._producer.start()
        self._consumer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Deliver no more."""
        self._consumer.close()
        self._producer.close()

    def _handle(self, message: ReceivedMessage) -> None:
        if not self._deliver(message.body):
            if message.reconsume_times == 0:
                self._producer.send(Message(self._reminders, message.body, delay=timedelta(days=1)))
            raise ConnectionError("nobody opens")
