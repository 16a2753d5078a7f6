"""What becomes of a half message: the messages that are stored when its fate is known."""

from pyromq import system_names
from pyromq.broker.stored_again import draft_of
from pyromq.codes import TRANSACTION_MASK, SysFlag
from pyromq.store.store import Draft
from pyromq.wire import properties as names
from pyromq.wire.record import Record

#: The one queue of the half topic, of the op topic, and of the topic of those that were given up.
QUEUE_ID = 0
#: The tag of an op message: the half is done with.
DONE_TAG = "d"
_COMMIT = int(SysFlag.TRANSACTION_COMMIT)
_OP_PROPERTIES = names.encode({names.TAGS: DONE_TAG, names.WAIT: "true"})


def committed_draft(half: Record) -> Draft | None:
    """Return a half as the message that consumers get, or None when it does not say where it belongs.

    Its properties stay, TRAN_MSG too: RocketMQ 4.9 writes them before it clears it.
    """
    topic = names.find_text(half.properties, names.REAL_TOPIC)
    queue_id = names.find_text(half.properties, names.REAL_QUEUE_ID)
    if topic is None or queue_id is None or not (queue_id.isascii() and queue_id.isdecimal()):
        return None
    draft = draft_of(half)
    draft.topic, draft.queue_id = topic, int(queue_id)
    draft.sys_flag = half.sys_flag & ~TRANSACTION_MASK | _COMMIT
    draft.prepared_position = half.position
    return draft


def given_up_draft(half: Record) -> Draft:
    """Return a half as operators find it when its producer was asked often enough."""
    draft = draft_of(half)
    draft.topic, draft.queue_id = system_names.TRANSACTION_CHECK_MAX_TIME, QUEUE_ID
    return draft


def op_draft(offset: int, *, now_ms: int, host: bytes) -> Draft:
    """Return the op message that says that the half at an offset is done with."""
    return Draft(
        topic=system_names.TRANSACTION_OP_HALF,
        queue_id=QUEUE_ID,
        body=str(offset).encode(),
        properties=_OP_PROPERTIES,
        flag=0,
        sys_flag=0,
        born_at_ms=now_ms,
        born_host=host,
        store_host=host,
    )
