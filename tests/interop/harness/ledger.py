"""The records that a story leaves in a log, told without times, places and ids.

What is left must be the same on our broker and on Apache's. Ids are not dropped but named: where a property
holds the id of a message, the entry says of which message, and by which of its two ids.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from pyromq.wire import properties as names
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.record import Record

HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CORRELATION = "CORRELATION_ID"
_ID = re.compile(r"\b(?:[0-9A-F]{32}|[0-9A-F]{56})\b")  # by an IPv4 or an IPv6 address
_UNIQUE_ID = re.compile("(?:^|\x02)UNIQ_KEY\x01([^\x02]+)")
#: Where a half was first, and how often it was asked about, depends on how quickly others were answered.
_NUMBERS_OF_HALVES = re.compile("((?:TRANSACTION_CHECK_TIMES|TRAN_PREPARED_QUEUE_OFFSET)\x01)[0-9]+")
#: Who asked and when, in a request and in its reply.
_OF_REQUESTS = re.compile("((?:CORRELATION_ID|REPLY_TO_CLIENT|ARRIVE_TIME|PUSH_REPLY_TIME)\x01)[^\x02]+")


class Entry(NamedTuple):
    """A record without what differs from run to run."""

    topic: str
    queue_id: int
    flags: tuple[int, int]
    times: int
    body: bytes
    properties: str
    #: Where it came from, and whether it is as old as the first record of its message.
    born: tuple[str, bool]
    #: Of which message its half is.
    prepared: str


class Ledger:
    """The entries of one client's topics in a log of several clients' records."""

    def __init__(self, records: Mapping[int, Record], prefix: str = "") -> None:
        self._prefix = prefix
        self._records = records
        self._named: dict[str, str] = {}
        self._first: dict[str, Record] = {}
        self._asked: dict[str, str] = {}
        self._halves = {record.queue_offset: record for record in records.values() if record.topic == HALF}
        for record in records.values():
            self._note(record)
        self.own = [record for record in records.values() if self._owner(record).startswith(f"{prefix}_")]

    def of(self, topic: str) -> list[Record]:
        """Return the client's records in a topic, in their order."""
        return [record for record in self.own if record.topic == topic]

    def entries(self, kind: str) -> list[Entry]:
        """Return what is to be compared of a kind, sorted; what comes with each check is told once."""
        topic = f"{self._prefix}_{kind}"
        entries = [self.entry(record) for record in self.own if self._owner(record) == topic]
        return sorted(set(entries) if kind == "transaction" else entries)

    def entry(self, record: Record) -> Entry:
        """Return a record as it may be compared."""
        first = self._first.get(unique_id(record), record)
        body = record.body
        if record.topic == OP:
            body = f"the half of {self._half_of(record).body!r}".encode()
        prepared = self._records.get(record.prepared_position)
        return Entry(
            record.topic,
            record.queue_id,
            (record.flag, record.sys_flag),
            record.reconsume_times,
            body,
            self.name_ids(record.properties),
            (
                "the broker" if record.born_host == record.store_host else "a client",
                (record.born_at_ms, record.born_host) == (first.born_at_ms, first.born_host),
            ),
            f"{prepared.topic} {prepared.body!r}" if prepared and record.prepared_position else "",
        )

    def name_ids(self, properties: str) -> str:
        """Put names in the place of ids."""
        named = _ID.sub(lambda found: self._named.get(found[0], found[0]), properties)
        return _OF_REQUESTS.sub(r"\1-", _NUMBERS_OF_HALVES.sub(r"\1n", named))

    def _note(self, record: Record) -> None:
        label = f"{record.body[:40]!r}"
        correlation = names.find_text(record.properties, CORRELATION)
        if correlation is not None:
            self._asked.setdefault(correlation, record.topic)
        own_id, *of_batch = _UNIQUE_ID.findall(record.properties) or [""]
        if own_id:
            self._first.setdefault(own_id, record)
            self._named[own_id] = f"<the message {label}>"
        self._named |= dict.fromkeys(of_batch, "<a batch>")
        self._named[offset_id(record)] = f"<{label} in {record.topic}, time {record.reconsume_times}>"

    def _half_of(self, op: Record) -> Record:
        return self._halves[int(op.body)]

    def _owner(self, record: Record) -> str:
        """Return the topic that a record is in, will be in, was in at first, or is a reply to."""
        if record.topic == OP:
            record = self._half_of(record)
        properties = names.decode(record.properties)
        for name in (names.RETRY_TOPIC, names.REAL_TOPIC):
            if name in properties:
                return properties[name]
        return self._asked.get(properties.get(CORRELATION, ""), record.topic)


def unique_id(record: Record) -> str:
    """Return the id that a message got from its producer; the op messages of a broker have none."""
    found = _UNIQUE_ID.search(record.properties)
    return found[1] if found else ""


def offset_id(record: Record) -> str:
    """Return the id that tells where a record is."""
    return offset_message_id(record.store_host, record.position)
