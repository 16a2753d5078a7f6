"""A stored message that is stored again, and how a record says of another that it waits no more.

A message that waited is *done* when the log has a record that ends its wait. Where RocketMQ has a format for
that (op messages of transactions, copies of delayed messages) it is that one. Else the record names the
waiting one by its `prepared_position`, by which a committed transaction names its half:

    position       4000                            9000              9300
    log       … │ waiting            │ …       … │ done            │ …
                 ▲                                 prepared_position 4001
                 └─────────────────────────────────┘

It is one more than the position: no record begins there, so no transaction has the same, and the record at
position 0 can be told from none.
"""

from typing import Final

from pyromq import system_names
from pyromq.store.store import Draft
from pyromq.wire import properties as names
from pyromq.wire.record import Record

#: The one queue of most topics of the broker's own.
QUEUE_ID: Final = 0


def draft_of(record: Record) -> Draft:
    """Return a draft that stores the record again; what shall differ is changed on it.

    Which half message a committed one came from is not carried over, as with RocketMQ.
    """
    return Draft(
        topic=record.topic,
        queue_id=record.queue_id,
        body=record.body,
        properties=record.properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_at_ms=record.born_at_ms,
        born_host=record.born_host,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
    )


def own_draft(
    topic: str, body: bytes, properties: str, *, born_at_ms: int, store_host: bytes, born_host: bytes = b""
) -> Draft:
    """Return a record that the broker itself writes, into queue 0 of a topic of its own."""
    return Draft(
        topic=topic,
        queue_id=QUEUE_ID,
        body=body,
        properties=properties,
        flag=0,
        sys_flag=0,
        born_at_ms=born_at_ms,
        born_host=born_host or store_host,
        store_host=store_host,
    )


def divert(draft: Draft, properties: dict[str, str], topic: str, queue_id: int) -> None:
    """Let a message wait in a queue of the broker's own, and note where it belongs."""
    properties[names.REAL_TOPIC] = draft.topic
    properties[names.REAL_QUEUE_ID] = str(draft.queue_id)
    draft.topic, draft.queue_id = topic, queue_id


def due_draft(record: Record) -> Draft | None:
    """Return a message that waits as it is stored in its own topic, or None when it does not name it.

    Its properties stay, DELAY and TRAN_MSG too: RocketMQ 4.9 writes them before it clears them.
    """
    topic = names.find_text(record.properties, names.REAL_TOPIC)
    queue_id = names.find_text(record.properties, names.REAL_QUEUE_ID)
    if topic is None or queue_id is None or not (queue_id.isascii() and queue_id.isdecimal()):
        return None
    if topic == system_names.TRANSACTION_HALF:
        return None
    draft = draft_of(record)
    draft.topic, draft.queue_id = topic, int(queue_id)
    return draft


def name_of(position: int) -> int:
    """Return the `prepared_position` by which a record names the waiting record at a position as done."""
    return position + 1


def position_named(prepared_position: int) -> int:
    """Return where the waiting record would be that a record names; most records name none."""
    return prepared_position - 1
