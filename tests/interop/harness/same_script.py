"""The same requests, byte for byte, for any broker: one at a time, so that the order in the log is fixed.

All kinds of stored messages are made: of several topics and queues, in batches, delayed, retried, dead, and
in transactions that are committed and rolled back. Where the broker itself stores something later (a delayed
message becomes due), the script waits for it before it goes on.
"""

import random
from dataclasses import dataclass
from itertools import count

from harness.same_files import Line
from pyromq.codes import Perm, RequestCode, SysFlag
from pyromq.testing.requests import BORN_AT_MS, send_fields, send_v2_fields
from pyromq.testing.waiting import eventually
from pyromq.wire.batch import BatchUnit, encode_batch
from pyromq.wire.properties import encode as encode_properties

ORDERS, BILLS, SELDOM = "same-orders", "same-bills", "same-" + "x" * 100
RETRYING = "same-retrying"
TOPICS = {ORDERS: 3, BILLS: 1, SELDOM: 2}
RETRY_TOPIC, DEAD_TOPIC = f"%RETRY%{RETRYING}", f"%DLQ%{RETRYING}"
PRODUCERS = "same-producers"
ROUNDS = 12


@dataclass(frozen=True)
class Sent:
    """A message that was acknowledged, and where the broker said that it is."""

    topic: str
    queue_id: int
    offset: int
    offset_id: str
    body: bytes
    properties: dict[str, str]


class Script:
    """Plays all requests to a broker, and remembers what was acknowledged."""

    def __init__(self, line: Line, first_number: int = 0) -> None:
        self.sent: list[Sent] = []
        self._line = line
        self._numbers = count(first_number)
        self._random = random.Random(498)

    def play(self) -> None:
        """Send everything."""
        for topic, queues in TOPICS.items():
            self._create_topic(topic, queues)
        for round_ in range(ROUNDS):
            for queue_id in range(TOPICS[ORDERS]):
                for _ in range(4):
                    self._send(ORDERS, queue_id, self._body(20_000))
            self._send(SELDOM, round_ % TOPICS[SELDOM], b"")
            self._send_batch(BILLS, 9)
        self._delay()
        self._retry()
        self._transact()
        last = self._send(ORDERS, 0, b"the last", old_code=True)
        eventually(lambda: self._line.has_key(ORDERS, last.properties["UNIQ_KEY"]), what="all is indexed")

    def send_half(self, body: bytes) -> Sent:
        """Begin a transaction."""
        return self._send(
            ORDERS,
            0,
            body,
            sys_flag=int(SysFlag.TRANSACTION_PREPARED),
            TRAN_MSG="true",
            PGROUP=PRODUCERS,
        )

    def _create_topic(self, topic: str, queues: int) -> None:
        self._line.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            {
                "topic": topic,
                "defaultTopic": "TBW102",
                "readQueueNums": queues,
                "writeQueueNums": queues,
                "perm": int(Perm.READ | Perm.WRITE),
                "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": 0,
                "order": topic == BILLS,
            },
        )

    def _body(self, size_max: int) -> bytes:
        return self._random.randbytes(self._random.randrange(size_max))

    def _properties(self, **more: str) -> dict[str, str]:
        number = next(self._numbers)
        return {
            "note": f"naïve 中文 {number} 😀",
            "KEYS": f"key-{number} every-{number % 10}",
            "TAGS": f"tag-{number % 3}",
            "UNIQ_KEY": f"7F000001{number:024X}",
            "WAIT": "true",
            **more,
        }

    def _send(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        *,
        sys_flag: int = 0,
        old_code: bool = False,
        **more: str,
    ) -> Sent:
        properties = self._properties(**more)
        code = RequestCode.SEND_MESSAGE if old_code else RequestCode.SEND_MESSAGE_V2
        answer = self._line.ask(
            code,
            (send_fields if old_code else send_v2_fields)(
                topic,
                properties,
                queueId=queue_id,
                sysFlag=sys_flag,
                flag=len(self.sent) % 5,
                producerGroup=PRODUCERS,
                bornTimestamp=BORN_AT_MS + len(self.sent),
            ),
            body,
        )
        assert answer.ext is not None
        offset = int(answer.ext["queueOffset"])
        sent = Sent(topic, queue_id, offset, answer.ext["msgId"], body, properties)
        if not more:
            self.sent.append(sent)
        return sent

    def _send_batch(self, topic: str, size: int) -> None:
        units = [(self._body(3000), self._properties()) for _ in range(size)]
        body = encode_batch(BatchUnit(0, body, encode_properties(own)) for body, own in units)
        fields = send_v2_fields(topic, {"WAIT": "true"}, batch=True, producerGroup=PRODUCERS)
        answer = self._line.ask(RequestCode.SEND_BATCH_MESSAGE, fields, body)
        assert answer.ext is not None
        first, ids = int(answer.ext["queueOffset"]), answer.ext["msgId"].split(",")
        assert len(ids) == size
        self.sent += (Sent(topic, 0, first + index, ids[index], *unit) for index, unit in enumerate(units))

    def _wait_for(self, topic: str, queue_id: int, end: int) -> None:
        eventually(lambda: self._line.end_of(topic, queue_id) == end, what=f"{topic} has {end} messages")

    def _delay(self) -> None:
        # From the answers: an Apache broker's queues follow its log at a distance.
        end = max(sent.offset for sent in self.sent if sent.topic == BILLS) + 1
        self._send(BILLS, 0, b"later", DELAY="1")
        self._wait_for(BILLS, 0, end + 1)

    def _retry(self) -> None:
        """Give two messages back: one is tried again after a second, one never."""
        again, never = self._send(ORDERS, 1, b"again"), self._send(ORDERS, 2, b"never again")
        self._give_back(again, 1)
        self._wait_for(RETRY_TOPIC, 0, 1)
        self._give_back(never, -1)
        self._wait_for(DEAD_TOPIC, 0, 1)

    def _give_back(self, sent: Sent, delay_level: int) -> None:
        self._line.ask(
            RequestCode.CONSUMER_SEND_MSG_BACK,
            {
                "offset": int(sent.offset_id[-16:], 16),
                "group": RETRYING,
                "delayLevel": delay_level,
                "originMsgId": sent.properties["UNIQ_KEY"],
                "originTopic": sent.topic,
                "unitMode": False,
                "maxReconsumeTimes": 16,
            },
        )

    def _transact(self) -> None:
        for fate in (SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK):
            half = self.send_half(f"half {fate}".encode())
            end_transaction(self._line, half, fate)


def end_transaction(line: Line, half: Sent, fate: SysFlag) -> None:
    """Commit a half message, or roll it back."""
    line.ask(
        RequestCode.END_TRANSACTION,
        {
            "producerGroup": PRODUCERS,
            "tranStateTableOffset": half.offset,
            "commitLogOffset": int(half.offset_id[-16:], 16),
            "commitOrRollback": int(fate),
            "fromTransactionCheck": False,
            "msgId": half.properties["UNIQ_KEY"],
            "transactionId": half.properties["UNIQ_KEY"],
        },
    )


def play(line: Line) -> list[Sent]:
    """Send everything, and return what was acknowledged and stays where it is."""
    script = Script(line)
    script.play()
    return script.sent
