"""What must hold after a restart, asked over the wire like any client would."""

from random import Random

from kill_ledger import NUMBER_DIGITS, Ledger, Queue

from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.requests import pull_fields
from pyromq.wire.bodies.offset_bodies import decode_group_offsets
from pyromq.wire.bodies.topic_bodies import decode_topic_table
from pyromq.wire.command import Command
from pyromq.wire.record import iter_records

TIMEOUT_S = 30.0
PULL_COUNT = 2000
KEYS_ASKED = 12


class Audit:
    """Asks a broker that came back, and tells the ledger."""

    def __init__(self, ledger: Ledger, chance: Random, *, broker: str, name_server: str = "") -> None:
        self._ledger = ledger
        self._chance = chance
        self._broker = broker
        self._name_server = name_server

    def run(self, *, is_full: bool) -> None:
        """Read what is new, or everything, and compare it with what was promised."""
        self._links = BlockingLinks(NetSettings())
        try:
            self._check_tables()
            queues = self._all_queues() if is_full else set(self._ledger.touched)
            for queue in sorted(queues):
                self._read_queue(queue, is_full=is_full)
            self._check_keys(queues)
            self._ledger.touched.clear()
        finally:
            self._links.close()

    def _all_queues(self) -> set[Queue]:
        return self._ledger.touched | set(self._ledger.seen)

    def _ask(self, code: int, fields: dict[str, object] | None = None, *, address: str = "") -> Command:
        texts = {name: str(value) for name, value in (fields or {}).items()}
        return self._links.request(address or self._broker, Command(code, ext=texts), TIMEOUT_S)

    def _read_queue(self, queue: Queue, *, is_full: bool) -> None:
        ledger, (topic, queue_id) = self._ledger, queue
        if topic not in self._topics:
            # Its first message was not acknowledged; `_check_tables` would have said so.
            return
        answer = self._ask(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue_id})
        end = int((answer.ext or {})["offset"])
        low = self._min_offset(queue)
        ledger.check_end(queue, end)
        ledger.check_start(queue, low)
        offset = low if is_full else max(len(ledger.seen[queue]), low)
        while offset < end:
            fields = pull_fields(topic, queueId=queue_id, queueOffset=offset, maxMsgNums=PULL_COUNT)
            answer = self._ask(RequestCode.PULL_MESSAGE, fields)
            if answer.code == ResponseCode.PULL_OFFSET_MOVED and ledger.has_retention:
                offset = int((answer.ext or {})["nextBeginOffset"])
                ledger.check_start(queue, offset)
                continue
            if answer.code != ResponseCode.SUCCESS:
                ledger.complain(f"{queue} at {offset} of {end}: {answer.code} {answer.remark}")
                return
            for record in iter_records(answer.body):
                if record.queue_offset != offset:
                    ledger.complain(f"{queue}: offset {record.queue_offset} comes where {offset} should")
                ledger.see(queue, record)
                offset += 1

    def _min_offset(self, queue: Queue) -> int:
        answer = self._ask(RequestCode.GET_MIN_OFFSET, {"topic": queue[0], "queueId": queue[1]})
        return int((answer.ext or {})["offset"])

    def _check_keys(self, queues: set[Queue]) -> None:
        ledger = self._ledger
        for queue in self._chance.sample(sorted(queues), min(len(queues), KEYS_ASKED)):
            if not ledger.acknowledged[queue]:
                continue
            offset, number = self._chance.choice(sorted(ledger.acknowledged[queue].items()))
            fields = {"topic": queue[0], "key": f"k{number}", "maxNum": 32, "beginTimestamp": 0}
            answer = self._ask(RequestCode.QUERY_MESSAGE, fields | {"endTimestamp": 1 << 60})
            found = [int(record.body[:NUMBER_DIGITS]) for record in iter_records(answer.body)]
            if number not in found and offset >= self._min_offset(queue):
                ledger.complain(f"{queue}: key k{number} finds {found} ({answer.code} {answer.remark})")

    def _check_tables(self) -> None:
        ledger = self._ledger
        table = decode_topic_table(self._ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)
        self._topics = set(table.topic_config_table)
        for name in ledger.topics - self._topics:
            ledger.complain(f"topic {name} was acknowledged and is not there")
        if self._name_server:
            for key in self._chance.sample(sorted(ledger.key_values), min(5, len(ledger.key_values))):
                fields = {"namespace": "kills", "key": key}
                answer = self._ask(RequestCode.GET_KV_CONFIG, fields, address=self._name_server)
                if (answer.ext or {}).get("value") != key:
                    ledger.complain(f"KV {key} was acknowledged and is not there")
        progress = decode_group_offsets(self._ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body)
        ledger.check_progress(progress, where="after a restart")
