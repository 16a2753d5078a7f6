"""The scribe: makes numbered messages, sends them, and writes down whatever happens to them.

Every message carries a number that no other has, at the beginning of its body and as a property, so that
whoever meets it later knows which one it is.
"""

import asyncio
import zlib
from dataclasses import dataclass, field
from itertools import count
from random import Random

from pyromq.client.aio.producer import Producer
from pyromq.client.hooks import SendHook, Sending
from pyromq.config.settings import ClientSettings
from pyromq.errors import HeaderError, PyroError
from pyromq.model import Message, MessageQueue, ReceivedMessage, SendResult
from pyromq.torture.history import History, Json
from pyromq.torture.stage import Stage
from pyromq.torture.workload.arrangement import OPERATOR
from pyromq.torture.workload.workload_plan import WorkloadKind, WorkloadPlan
from pyromq.wire.message_id import parse_offset_message_id

NUMBER_DIGITS = 12
#: Seconds after which whoever waits looks whether the run is over.
_SLICE_S = 0.5


def body_of(number: int, kind: WorkloadKind, filling: bytes = b"") -> bytes:
    """Return the body of a message: its number, its kind, and whatever makes it longer."""
    return b"%0*d %s %s" % (NUMBER_DIGITS, number, kind.encode(), filling)


def number_of(body: bytes) -> int:
    """Return the number of a message; −1 when the body is none of ours."""
    digits = body[:NUMBER_DIGITS]
    return int(digits) if len(digits) == NUMBER_DIGITS and digits.isdigit() else -1


def told(error: BaseException) -> str:
    """Return an error as one short text."""
    return f"{type(error).__name__}: {error}"[:200]


def place_of(queue: MessageQueue) -> str:
    """Return a queue as one word."""
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"


def address_in(offset_message_id: str) -> tuple[str, int]:
    """Return the address of the broker that stored a message, and the position in its log."""
    try:
        parsed = parse_offset_message_id(offset_message_id)
    except HeaderError:
        return "", -1
    return f"{parsed.host}:{parsed.port}", parsed.position


@dataclass(slots=True)
class MessageDraft:
    """A message before it is sent, and what the history says of it."""

    number: int
    kind: WorkloadKind
    message: Message
    fields: dict[str, Json] = field(default_factory=dict)


class Scribe:
    """The state that all parts of a workload share."""

    def __init__(self, stage: Stage, history: History, plan: WorkloadPlan) -> None:
        self.stage = stage
        self.history = history
        self.plan = plan
        self.chance = Random(stage.chance.getrandbits(64))
        #: In the clients' names, so that runs that follow each other in one process do not share them.
        self._salt = self.chance.getrandbits(32)
        #: The load has ended; clients go on until the run is over.
        self.is_stopped = False
        self.is_over = False
        #: The queues of each topic, as they were when the run began.
        self.queues: dict[str, list[MessageQueue]] = {}
        #: Clients that have begun something which they must end before the run may.
        self.busy: dict[str, None] = {}
        #: How often the failing group is to fail a message.
        self.failures: dict[int, int] = {}
        self._numbers = count()
        self._lives = count()

    # Clients ------------------------------------------------------------------------------------------

    def settings(self, client: str, account: str = OPERATOR, **changes: object) -> ClientSettings:
        """Return a client's settings: intervals that suit a run of a minute, and a name for each life."""
        known = self.stage.account(account)
        chosen: dict[str, object] = {
            "instance_name": f"{client}-{self._salt:08x}-{next(self._lives)}",
            "client_ip": "127.0.0.1",
            "send_msg_timeout": 4_000,
            "poll_name_server_interval": 2_000,
            "heartbeat_broker_interval": 2_000,
            "persist_consumer_offset_interval": 1_000,
            "pull_time_delay_mills_when_exception": 500,
            "rebalance_wait_interval": 2_000,
            "rebalance_lock_interval": 2_000,
            "push_suspend_max_time_millis": 5_000,
            "suspend_current_queue_time_millis": 300,
            "connect_timeout_millis": 1_500,
        }
        if known is not None:
            chosen |= {"access_key": known.access_key, "secret_key": known.secret_key}
        return ClientSettings(**(chosen | changes))  # type: ignore[arg-type]

    def producer(self, client: str, *, account: str = OPERATOR) -> Producer:
        """Return a producer that writes its tries down."""
        settings = self.settings(client, account)
        return Producer(f"p-{client}", self.stage.namesrv_address, settings, hooks=(self.hook(client),))

    def hook(self, client: str) -> SendHook:
        """Return what notes every try of a client's sends."""
        return _Tries(self.history, client)

    # Time ---------------------------------------------------------------------------------------------

    async def pause(self, kind: WorkloadKind) -> bool:
        """Wait until the next of a kind is due; return whether the load goes on."""
        return await self.wait(self.chance.expovariate(1 / self.plan.pauses_s[kind]))

    async def wait(self, seconds: float) -> bool:
        """Wait, but not beyond the end of the load; return whether the load goes on."""
        until_s = self.stage.now_s() + seconds
        # No event that the other side sets: a client of a real stage may be in another process some day.
        while not self.is_stopped and (left_s := until_s - self.stage.now_s()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left_s, _SLICE_S))
        return not self.is_stopped

    async def wait_for_end(self) -> None:
        """Wait until the run is over: clients still answer questions and get replies meanwhile."""
        while not self.is_over:  # noqa: ASYNC110  as above
            await asyncio.sleep(_SLICE_S)

    # Messages -----------------------------------------------------------------------------------------

    def new_number(self) -> int:
        """Return a number that no message has."""
        return next(self._numbers)

    def draft(self, kind: WorkloadKind, topic: str, filling: bytes = b"", **fields: Json) -> MessageDraft:
        """Return a new message; `fields` are what the checker must know of it."""
        number = self.new_number()
        tag, weight = self.chance.choice("abc"), self.chance.randrange(10)
        body = body_of(number, kind, filling)
        message = Message(
            topic,
            body,
            tags=tag,
            keys=[f"n{number}"],
            properties={"no": str(number), "kind": str(kind), "weight": str(weight)},
        )
        known: dict[str, Json] = {"tag": tag, "weight": weight, "crc": zlib.crc32(body)}
        return MessageDraft(number, kind, message, known | fields)

    def note_send(self, actor: str, draft: MessageDraft) -> None:
        """Write down that a message is about to be sent."""
        self.history.note(
            "send",
            actor,
            number=draft.number,
            what=str(draft.kind),
            topic=draft.message.topic,
            **draft.fields,
        )

    def note_ack(self, actor: str, number: int, result: SendResult, at: int = 0) -> None:
        """Write down what a broker said of a message, the `at`th of its batch."""
        host, position = address_in(result.offset_message_id.split(",")[at])
        self.history.note(
            "ack",
            actor,
            number=number,
            status=str(result.status),
            place=place_of(result.queue),
            offset=result.queue_offset + at,
            host=host,
            position=position,
        )

    def note_failure(self, actor: str, number: int, error: BaseException) -> None:
        """Write down that nobody knows whether a message is stored."""
        self.history.note("fail", actor, number=number, error=told(error))

    async def send(
        self, actor: str, producer: Producer, draft: MessageDraft, *, queue: MessageQueue | None = None
    ) -> SendResult | None:
        """Send a message and write down what came of it; None when that is not known."""
        self.note_send(actor, draft)
        try:
            result = await producer.send(draft.message, queue=queue)
        except PyroError as error:
            self.note_failure(actor, draft.number, error)
            return None
        self.note_ack(actor, draft.number, result)
        return result

    def note_delivery(
        self, actor: str, group: str, message: ReceivedMessage, *, is_done: bool = True, **more: Json
    ) -> int:
        """Write down that a reader got a message, and more of it; return the message's number."""
        number = number_of(message.body)
        fields: dict[str, Json] = {
            "group": group,
            "number": number,
            "place": place_of(message.queue),
            "offset": message.queue_offset,
            "times": message.reconsume_times,
            "done": is_done,
            "crc": zlib.crc32(message.body),
        }
        self.history.note("deliver", actor, **(fields | more))
        return number


class _Tries(SendHook):
    """Writes down every try of a send."""

    def __init__(self, history: History, actor: str) -> None:
        self._history = history
        self._actor = actor

    def before(self, sending: Sending) -> None:
        number = number_of(sending.message.body)
        self._history.note("try", self._actor, number=number, address=sending.broker_address)
