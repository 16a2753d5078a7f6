"""Staged messages and ops as records of the two topics that only this broker reads and writes.

A chunk is one record of `rmq_sys_staged`: its body is that of a SEND_BATCH_MESSAGE, as it came; whose it
is, and where its messages belong, stands in its properties. An op is one record of `rmq_sys_staged_op`.
"""

import msgspec

from pyromq import system_names
from pyromq.broker.kinds.staging.ops import AnyOp, encode_op
from pyromq.broker.kinds.stored_again import own_draft
from pyromq.errors import CorruptRecord
from pyromq.store.store import Draft
from pyromq.wire import properties as names

#: An owner without a name: an address that needs no account. A property without a value would be none.
_NAMELESS = "-"


class ChunkNote(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={
        "owner": "STAGED_OWNER",
        "query": "STAGED_QUERY",
        "batch": "STAGED_BATCH",
        "home": "STAGED_HOME",
        "part": "STAGED_PART",
        "attempt": "STAGED_ATTEMPT",
        "sequence": "STAGED_SEQUENCE",
        "topic": names.REAL_TOPIC,
        "queue_id": names.REAL_QUEUE_ID,
        "sys_flag": "STAGED_SYS_FLAG",
        "message_count": "STAGED_MESSAGES",
        "record_bytes": "STAGED_BYTES",
        "is_plain": "STAGED_PLAIN",
    },
):
    """Whose a chunk is, where its messages belong, and what was found out about them when it came.

    `record_bytes` is what their records take in the log. Of plain messages the compiled kernel can make
    records. `owner` is the account that the query belongs to, None where there is no access control.
    """

    owner: str | None = None
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

    def encode(self) -> str:
        """Return the properties of the chunk's record."""
        named = msgspec.structs.replace(self, owner=_NAMELESS) if self.owner == "" else self
        pairs = msgspec.to_builtins(named).items()
        return names.encode(
            {name: value if isinstance(value, str) else str(int(value)) for name, value in pairs}
        )


def read_note(properties: str) -> ChunkNote:
    """Return what a chunk's record says of it; raise CorruptRecord when that is not all of it."""
    try:
        note = msgspec.convert(names.decode(properties), ChunkNote, strict=False)
    except msgspec.ValidationError as error:
        raise CorruptRecord(f"a staged chunk does not say whose it is: {error}") from error
    return msgspec.structs.replace(note, owner="") if note.owner == _NAMELESS else note


def chunk_draft(
    note: ChunkNote, messages: bytes, *, born_at_ms: int, born_host: bytes, store_host: bytes
) -> Draft:
    """Return the record of a chunk, to be stored."""
    return own_draft(
        system_names.STAGED,
        messages,
        note.encode(),
        born_at_ms=born_at_ms,
        born_host=born_host,
        store_host=store_host,
    )


def op_draft(op: AnyOp, *, now_ms: int, store_host: bytes) -> Draft:
    """Return the record of an op, to be stored."""
    return own_draft(system_names.STAGED_OP, encode_op(op), "", born_at_ms=now_ms, store_host=store_host)
