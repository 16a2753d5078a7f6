"""Dead letters to be: messages that are sent and given up at once, as a consumer of a group does it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyromq import Message, Producer
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id

GIVE_UP = -1


class Undertaker:
    """Sends messages, and buries them."""

    def __init__(self, producer: Producer, links: BlockingLinks, brokers: dict[str, str]) -> None:
        self.producer = producer
        self._links = links
        self._brokers = brokers

    def bury(
        self,
        group: str,
        topic: str,
        body: bytes,
        *,
        tags: str | None = None,
        keys: Sequence[str] = (),
        broker: str | None = None,
        properties: dict[str, str] | None = None,
    ) -> str:
        """Make a dead letter of a new message, on a broker, and return its first copy's id."""
        message = Message(topic, body, tags=tags, keys=list(keys), properties=properties or {})
        queues = [one for one in self.producer.queues(topic) if broker in (None, one.broker_name)]
        sent = self.producer.send(message, queue=queues[0])
        self.give_up(group, sent.queue.broker_name, sent.offset_message_id)
        return sent.offset_message_id

    def give_up(self, group: str, broker: str, offset_message_id: str) -> None:
        """Send a message back for the last time."""
        fields = {
            "offset": str(parse_offset_message_id(offset_message_id).position),
            "group": group,
            "delayLevel": str(GIVE_UP),
            "unitMode": "false",
            "maxReconsumeTimes": "16",
        }
        answer = self.ask(broker, RequestCode.CONSUMER_SEND_MSG_BACK, fields)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    def ask(self, broker: str, code: int, fields: dict[str, str]) -> Command:
        """Send a broker a request."""
        return self._links.request(self._brokers[broker], Command(code, ext=fields), 10)


@contextmanager
def undertaker(name_server: str, addresses: Sequence[str]) -> Iterator[Undertaker]:
    """Give an undertaker for the brokers broker-a, broker-b, … at these addresses."""
    brokers = {f"broker-{chr(ord('a') + at)}": address for at, address in enumerate(addresses)}
    links = BlockingLinks(NetSettings())
    try:
        with Producer("undertakers", name_server) as producer:
            yield Undertaker(producer, links, brokers)
    finally:
        links.close()
