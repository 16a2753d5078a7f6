"""Plain sends: what the compiled kernel is taught of them, and how one goes on that does not end as usual.

A send is plain when nothing about it needs a decision: a message without a delay, short enough to travel
uncompressed, to the next queue of a topic whose route and connection are there. The kernel makes its frame,
puts it on the connection, and reads the answer that says SUCCESS (`_kernel/client/plain_sends.pyx`). The plan
of the send (`plans/send_plans.py`) has the say over everything else:

    the message is not plain, its topic is not known    the plan, from its beginning
    the connection is not there, or has no room         the plan, with the queue whose turn it was
    another answer, no answer, the connection ended     the plan, after that first try

What is taught follows from the routes, and is forgotten when they change. Where hooks or measured latencies
want to know of each try there are no plain sends.
"""

from typing import Any, Final

import msgspec

from pyromq.client.client_session import Session
from pyromq.client.names import RETRY_TOPIC_PREFIX, check_sendable_topic
from pyromq.client.namespaces import unwrap_queue, wrap
from pyromq.client.plans import send_plans
from pyromq.client.plans.send_plans import DEFAULT_REGION, Attempt
from pyromq.client.producer.outgoing import Outgoing, encoded, pairs_of, prepare
from pyromq.client.signing import signer
from pyromq.client.steps import Deadline, Plan
from pyromq.errors import MessageIllegal, PyroError
from pyromq.kernel import IS_COMPILED
from pyromq.model import Message, MessageQueue, SendResult, SendStatus
from pyromq.wire import properties as names
from pyromq.wire.command import FRAME_BYTES_MAX, Command, encode, read_command
from pyromq.wire.marks import Parts, cut_at_marks
from pyromq.wire.signature import SIGNATURE, signed_text, signing_key

if IS_COMPILED:
    from pyromq._kernel.client import plain_sends as kernel

#: Orders of properties that are remembered: an application has few, unless it makes names up.
SHAPES_MAX: Final = 256
#: A longer body gains nothing here.
BODY_BYTES_MAX: Final = 1024 * 1024
#: Properties that make a message more than a plain one, or say how the client is to send it.
_NOT_PLAIN: Final = frozenset(
    {
        names.UNIQ_KEY,
        names.TRANSACTION_PREPARED,
        names.MSG_TYPE,
        names.RECONSUME_TIME,
        names.MAX_RECONSUME_TIMES,
    }
)
#: Stand in an encoded frame for what varies; no name that RocketMQ allows has such a letter.
_BORN, _FLAG, _PROPERTIES, _SIGNATURE = "@born@", "@flag@", "@properties@", "@signature@"
_MESSAGE_ID, _KEYS, _TAGS = "@id@", "@keys@", "@tags@"
_OPAQUE: Final = 2_147_480_001


class PlainSendTeacher:
    """The plain sends of one producer's session, over the connections in `links`."""

    def __init__(self, session: Session, links: dict[str, Any]) -> None:
        settings = session.settings
        self._session = session
        self._sign = signer(settings)
        self._lanes: dict[tuple[MessageQueue, str], kernel.Lane | None] = {}
        self.kernel = kernel.PlainSends(
            Message,
            SendResult,
            SendStatus.SEND_OK,
            DEFAULT_REGION,
            routes=session.routes,
            links=links,
            ids=session.identity.unique_ids,
            key=signing_key(settings.secret_key.encode()) if self._sign is not None else None,
            body_bytes_max=min(
                settings.max_message_size, settings.compress_msg_body_over_howmuch - 1, BODY_BYTES_MAX
            ),
        )

    def learn(self, message: Message) -> bool:
        """Teach what the kernel did not know of a message; return whether it knows something more now."""
        if type(message) is not Message or type(message.properties) is not dict:
            return False
        topic, has_learnt = message.topic, False
        if type(topic) is str and not self.kernel.knows_topic(topic):
            has_learnt = self._learn_topic(topic)
        keys = (tuple(message.properties), bool(message.keys), bool(message.tags))
        if not self.kernel.knows_shape(*keys) and self.kernel.shape_count < SHAPES_MAX:
            has_learnt |= self._learn_shape(*keys)
        return has_learnt

    def rest(
        self,
        message: Message,
        begun: "kernel.PlainSend",
        outcome: Command | PyroError | None,
        deadline: Deadline,
    ) -> Plan[SendResult]:
        """Return the plan of a send that was begun plainly, from the outcome of its first try on."""
        session, lane = self._session, begun.lane
        if begun.frame is None:
            outgoing = prepare(message, begun.message_id, session.settings)
        else:
            outgoing = _outgoing_of(message, begun.message_id, begun.frame)
        first = Attempt(lane.wire_queue, None if outcome is None else lane.address, outcome)
        return send_plans.go_on(session, outgoing, first, send_plans.sync_rule(session), deadline)

    def _learn_topic(self, name: str) -> bool:
        session = self._session
        routes, namespace = session.routes, session.settings.namespace
        # Asked first: a change from here on is one that the kernel notices.
        revision = routes.revision
        topic = wrap(namespace, name)
        route = routes.get(topic)
        if route is None or not route.write_queues or routes.is_stale(topic) or not _is_sendable(name):
            return False
        lanes = []
        for queue in route.write_queues:
            address = routes.master_address(queue.broker_name)
            if address is None:
                return False
            lane = self._lane(queue, send_plans.called_at(session, address))
            if lane is None:
                return False
            lanes.append(lane)
        self.kernel.learn_topic(name, lanes, session.turn(topic), revision)
        return True

    def _lane(self, queue: MessageQueue, address: str) -> "kernel.Lane | None":
        """Return what the messages to a queue have in common; None when it cannot be told from the rest."""
        key = (queue, address)
        if key not in self._lanes:
            try:
                self._lanes[key] = self._new_lane(queue, address)
            except ValueError:
                self._lanes[key] = None
        return self._lanes[key]

    def _new_lane(self, queue: MessageQueue, address: str) -> "kernel.Lane":
        session = self._session
        message = Message(queue.topic, b"")
        outgoing = Outgoing(message, queue.topic, b"", properties=_PROPERTIES, message_id="")
        command = send_plans.command_of(session, outgoing, queue)
        command.opaque = _OPAQUE
        assert command.ext is not None
        command.ext |= {send_plans.BORN_FIELD: _BORN, send_plans.FLAG_FIELD: _FLAG}
        marks = {
            _BORN.encode(): kernel.BORN,
            _FLAG.encode(): kernel.FLAG,
            _PROPERTIES.encode(): kernel.PROPERTIES,
        }
        signed: Parts | None = None
        if self._sign is not None:
            self._sign(command)
            signed = cut_at_marks(signed_text(command.ext).encode(), marks)
            command.ext[SIGNATURE] = _SIGNATURE
            marks[_SIGNATURE.encode()] = kernel.SIGNATURE
        header = cut_at_marks(encode(command)[8:], {**marks, b"%d" % _OPAQUE: kernel.OPAQUE})
        return kernel.Lane(unwrap_queue(session.settings.namespace, queue), queue, address, header, signed)

    def _learn_shape(self, own: tuple[str, ...], has_keys: bool, has_tags: bool) -> bool:  # noqa: FBT001  a key
        if len(own) > kernel.VALUES_MAX or not _NOT_PLAIN.isdisjoint(own):
            return False
        values = {f"@{number}@": kernel.VALUES + number for number in range(len(own))}
        marked = Message(
            "",
            b"",
            keys=_KEYS if has_keys else (),
            tags=_TAGS if has_tags else None,
            properties=dict(zip(own, values, strict=True)),
        )
        try:
            text = encoded(pairs_of(marked, _MESSAGE_ID, self._session.settings.namespace))
            kinds = values | {_MESSAGE_ID: kernel.MESSAGE_ID}
            kinds |= {_KEYS: kernel.KEYS} if has_keys else {}
            kinds |= {_TAGS: kernel.TAGS} if has_tags else {}
            marks = {mark.encode(): kind for mark, kind in kinds.items()}
            plain = cut_at_marks(text.encode(), marks)
            json = cut_at_marks(msgspec.json.encode(text)[1:-1], marks)
        except (MessageIllegal, UnicodeEncodeError, ValueError):
            # The plan says what is wrong with the message, or sends it.
            return False
        self.kernel.learn_shape(own, has_keys, has_tags, kernel.Shape(plain, json))
        return True


def may_send_plainly(session: Session) -> bool:
    """Return whether there are plain sends at all."""
    settings = session.settings
    wants_each_try = (
        session.send_hooks or settings.send_latency_fault_enable or settings.send_least_latency_enable
    )
    return IS_COMPILED and not wants_each_try


def _is_sendable(topic: str) -> bool:
    try:
        check_sendable_topic(topic)
    except MessageIllegal:
        return False
    return not topic.startswith(RETRY_TOPIC_PREFIX)


def _outgoing_of(message: Message, message_id: str, frame: bytes) -> Outgoing:
    """Return what a frame carries: the application may have changed its message since."""
    command, _ = read_command(frame, 0, FRAME_BYTES_MAX)
    assert command is not None
    assert command.ext is not None
    header = send_plans.header_of(command)
    return Outgoing(
        message=message,
        topic=header.topic,
        body=command.body,
        properties=header.properties or "",
        message_id=message_id,
        flag=header.flag,
    )
