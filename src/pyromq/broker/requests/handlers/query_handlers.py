"""Offsets and times of queues, and messages by key or by position."""

from pyromq.codes import ResponseCode
from pyromq.errors import ServerFailed
from pyromq.net.routes import Answer, Request
from pyromq.store.store import MessageStore
from pyromq.wire.headers.offset_headers import (
    GetEarliestMessageStoreTime,
    GetMaxOffset,
    GetMinOffset,
    SearchOffset,
)
from pyromq.wire.headers.query_headers import QueryMessage, ViewMessage


class QueryHandlers:
    """Answers questions about what is stored."""

    def __init__(self, store: MessageStore, *, unique_count_max: int) -> None:
        self._store = store
        self._unique_count_max = unique_count_max

    def max_offset(self, request: Request[GetMaxOffset]) -> Answer:
        """Answer the offset that a queue's next message gets."""
        header = request.header
        return _offset(self._store.readable_end(header.topic, header.queue_id))

    def min_offset(self, request: Request[GetMinOffset]) -> Answer:
        """Answer the offset of a queue's oldest message."""
        header = request.header
        return _offset(self._store.min_offset(header.topic, header.queue_id))

    def offset_by_time(self, request: Request[SearchOffset]) -> Answer:
        """Answer the offset of the message that was stored at a time, or next to it."""
        header = request.header
        return _offset(self._store.offset_by_time(header.topic, header.queue_id, header.timestamp))

    def earliest_time(self, request: Request[GetEarliestMessageStoreTime]) -> Answer:
        """Answer when a queue's oldest message was stored, −1 for an empty queue."""
        header = request.header
        return Answer(ext={"timestamp": str(self._store.earliest_time(header.topic, header.queue_id))})

    def by_key(self, request: Request[QueryMessage]) -> Answer:
        """Answer the newest messages that carry a key."""
        header = request.header
        found = self._store.query(
            header.topic,
            header.key,
            count_max=self._unique_count_max if header.unique_key_query else header.max_num,
            begin_ms=header.begin_timestamp,
            end_ms=header.end_timestamp,
        )
        ext = {
            "indexLastUpdateTimestamp": str(found.index_updated_at_ms),
            "indexLastUpdatePhyoffset": str(found.index_position),
        }
        if not found.records:
            return Answer(
                ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct", ext=ext
            )
        return Answer(ext=ext, body=b"".join(found.records))

    def by_position(self, request: Request[ViewMessage]) -> Answer:
        """Answer the message at a position of the log."""
        record = self._store.read_at(request.header.offset)
        if record is None:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {request.header.offset}"
            )
        return Answer(body=record)


def _offset(offset: int) -> Answer:
    return Answer(ext={"offset": str(offset)})
