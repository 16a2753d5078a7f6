"""Staged messages and ops as records of the two topics that only this broker reads and writes.

A chunk is one record of `rmq_sys_staged`: its body is that of a SEND_BATCH_MESSAGE, as it came; whose it
is, and where its messages belong, stands in its properties. An op is one record of `rmq_sys_staged_op`.
"""

from dataclasses import dataclass

from pyromq import system_names
from pyromq.broker.staging.ops import AnyOp, encode_op
from pyromq.errors import CorruptRecord
from pyromq.store.store import Draft
from pyromq.wire import properties as names

#: The one queue of each of the two topics.
QUEUE_ID = 0

QUERY = "STAGED_QUERY"
BATCH = "STAGED_BATCH"
HOME = "STAGED_HOME"
PART = "STAGED_PART"
ATTEMPT = "STAGED_ATTEMPT"
SEQUENCE = "STAGED_SEQUENCE"
SYS_FLAG = "STAGED_SYS_FLAG"
MESSAGE_COUNT = "STAGED_MESSAGES"
RECORD_BYTES = "STAGED_BYTES"
IS_PLAIN = "STAGED_PLAIN"
OWNER = "STAGED_OWNER"
#: An owner without a name: an address that needs no account. A property without a value would be none.
_NAMELESS = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkNote:
    """Whose a chunk is, where its messages belong, and what was found out about them when it came.

    `record_bytes` is what their records take in the log. Of plain messages the compiled kernel can make
    records. `owner` is the account that the query belongs to, None where there is no access control.
    """

    query: str
    batch: int
    home: str
    part: int
    attempt: str
    sequence: int
    topic: str
    queue_id: int
    sys_flag: int
    message_count: int
    record_bytes: int
    is_plain: bool
    owner: str | None = None

    def encode(self) -> str:
        """Return the properties of the chunk's record."""
        owner = {} if self.owner is None else {OWNER: self.owner or _NAMELESS}
        return names.encode(
            {
                **owner,
                QUERY: self.query,
                BATCH: str(self.batch),
                HOME: self.home,
                PART: str(self.part),
                ATTEMPT: self.attempt,
                SEQUENCE: str(self.sequence),
                names.REAL_TOPIC: self.topic,
                names.REAL_QUEUE_ID: str(self.queue_id),
                SYS_FLAG: str(self.sys_flag),
                MESSAGE_COUNT: str(self.message_count),
                RECORD_BYTES: str(self.record_bytes),
                IS_PLAIN: str(int(self.is_plain)),
            }
        )


def read_note(properties: str) -> ChunkNote:
    """Return what a chunk's record says of it; raise CorruptRecord when that is not all of it."""
    pairs = names.decode(properties)
    try:
        return ChunkNote(
            query=pairs[QUERY],
            batch=int(pairs[BATCH]),
            home=pairs[HOME],
            part=int(pairs[PART]),
            attempt=pairs[ATTEMPT],
            sequence=int(pairs[SEQUENCE]),
            topic=pairs[names.REAL_TOPIC],
            queue_id=int(pairs[names.REAL_QUEUE_ID]),
            sys_flag=int(pairs[SYS_FLAG]),
            message_count=int(pairs[MESSAGE_COUNT]),
            record_bytes=int(pairs[RECORD_BYTES]),
            is_plain=pairs[IS_PLAIN] == "1",
            owner=_owner(pairs.get(OWNER)),
        )
    except (KeyError, ValueError) as error:
        raise CorruptRecord(f"a staged chunk does not say whose it is: {error}") from error


def _owner(text: str | None) -> str | None:
    return "" if text == _NAMELESS else text


def chunk_draft(
    note: ChunkNote, messages: bytes, *, born_at_ms: int, born_host: bytes, store_host: bytes
) -> Draft:
    """Return the record of a chunk, to be stored."""
    return Draft(
        topic=system_names.STAGED,
        queue_id=QUEUE_ID,
        body=messages,
        properties=note.encode(),
        flag=0,
        sys_flag=0,
        born_at_ms=born_at_ms,
        born_host=born_host,
        store_host=store_host,
    )


def op_draft(op: AnyOp, *, now_ms: int, store_host: bytes) -> Draft:
    """Return the record of an op, to be stored."""
    return Draft(
        topic=system_names.STAGED_OP,
        queue_id=QUEUE_ID,
        body=encode_op(op),
        properties="",
        flag=0,
        sys_flag=0,
        born_at_ms=now_ms,
        born_host=store_host,
        store_host=store_host,
    )
