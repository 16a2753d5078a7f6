"""A stored message as a draft of the same message: retries, delays and transactions store it again."""

from pyromq.store.store import Draft
from pyromq.wire.record import Record


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
