"""The contents of a ReceiveMessage, read once from its bytes.

An SDK's receives of a topic are the same bytes from one to the next, so what they say is kept by them. What
depends on topics, groups and clients is looked at each time (`consume_receive.py`).
"""

from dataclasses import dataclass
from typing import Final

from pyromq.broker.access.accounts import Need
from pyromq.broker.grpc.grpc_needs import need_to_read
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcRefused
from pyromq.wire.grpc.grpc_names import check_grpc_group, check_grpc_topic
from pyromq.wire.grpc.grpc_times import ms_of

#: Requests that are kept, and how long each may be.
_KEPT_MAX: Final = 1_024
_KEPT_BYTES_MAX: Final = 512


@dataclass(frozen=True, slots=True)
class ReceiveWords:
    """The contents of one request."""

    request: pb.ReceiveMessageRequest
    topic: str
    group: str
    #: How long it waits, if it says.
    polling_ms: int | None
    invisible_ms: int
    is_renewed: bool
    batch_size: int
    filter_type: int
    expression: str
    attempt_id: str | None
    #: Why it is refused, whatever there is of topics and groups: its names; None: they are well.
    refusal: GrpcRefused | None

    def check_names(self) -> None:
        """Raise GrpcRefused for names that may not be."""
        if self.refusal is not None:
            raise self.refusal


class ReceiveReading:
    """Reads requests."""

    def __init__(self) -> None:
        self._kept: dict[bytes, ReceiveWords] = {}

    def read(self, data: bytes) -> ReceiveWords:
        """Return what a request says; raise DecodeError when it is none."""
        words = self._kept.get(data)
        if words is None:
            words = _read(pb.ReceiveMessageRequest.FromString(data))
            # One with the id of an attempt does not come twice.
            is_plain = words.attempt_id is None and words.refusal is None
            if is_plain and len(data) <= _KEPT_BYTES_MAX:
                if len(self._kept) >= _KEPT_MAX:
                    self._kept.clear()
                self._kept[data] = words
        return words


def need_to_receive(words: ReceiveWords) -> Need:
    """SUB for the group and for the topic of the queue."""
    return need_to_read(words.request)


def _read(request: pb.ReceiveMessageRequest) -> ReceiveWords:
    expression = request.filter_expression
    topic, group = request.message_queue.topic.name, request.group.name
    return ReceiveWords(
        request,
        topic,
        group,
        ms_of(request.long_polling_timeout) if request.HasField("long_polling_timeout") else None,
        ms_of(request.invisible_duration),
        request.auto_renew,
        request.batch_size,
        expression.type,
        expression.expression,
        request.attempt_id or None,
        _refusal(topic, group),
    )


def _refusal(topic: str, group: str) -> GrpcRefused | None:
    try:
        check_grpc_topic(topic)
        check_grpc_group(group)
    except GrpcRefused as refusal:
        return refusal
    return None
