"""Dead letters to be: messages that are sent and given up at once, as a consumer of a group does it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyromq import Message, Producer
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.waiting import eventually
from pyromq.wire.bodies.route_bodies import decode_route
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id

GIVE_UP = -1
#: Seconds for a busy machine with a Java broker.
PATIENCE_S = 60


class Undertaker:
    """Sends messages, and buries them."""

    def __init__(
        self, name_server: str, producer: Producer, links: BlockingLinks, brokers: dict[str, str]
    ) -> None:
        self.producer = producer
        self._name_server = name_server
        self._links = links
        self._brokers = brokers
        self._known: set[tuple[str, str]] = set()

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
        """Send a message back for the last time; the name server knows of the dead letters then."""
        fields = {
            "offset": str(parse_offset_message_id(offset_message_id).position),
            "group": group,
            "delayLevel": str(GIVE_UP),
            "unitMode": "false",
            "maxReconsumeTimes": "16",
        }
        answer = self.ask(broker, RequestCode.CONSUMER_SEND_MSG_BACK, fields)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        if (group, broker) not in self._known:
            # A broker that makes a topic answers before it has told the name servers.
            eventually(lambda: self._is_known(group, broker), PATIENCE_S, what=f"the dead letters of {group}")
            self._known.add((group, broker))

    def _is_known(self, group: str, broker: str) -> bool:
        asked = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": f"%DLQ%{group}"})
        answer = self._links.request(self._name_server, asked, 10)
        if answer.code != ResponseCode.SUCCESS:
            return False
        return broker in {queues.broker_name for queues in decode_route(answer.body).queue_datas}

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
            yield Undertaker(name_server, producer, links, brokers)
    finally:
        links.close()
