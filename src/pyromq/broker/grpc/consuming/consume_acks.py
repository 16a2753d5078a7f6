"""AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue: a delivery ends, or is delayed.

Clients name a delivery by its receipt handle. One that was acknowledged already is acknowledged again; one
whose time is over, or that another handle replaced, is refused with INVALID_RECEIPT_HANDLE.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from pyromq.broker.grpc.consuming.consume_checks import ConsumeChecks
from pyromq.broker.grpc.consuming.consume_times import changed_invisible_ms
from pyromq.broker.grpc.grpc_callers import GrpcCaller
from pyromq.broker.pop.pop_asks import AckResult, Done
from pyromq.broker.pop.pop_door import Pop
from pyromq.config.grpc_settings import GrpcSettings
from pyromq.errors import HeaderError
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.grpc.grpc_names import check_grpc_group
from pyromq.wire.grpc.grpc_times import ms_of
from pyromq.wire.receipt_handle import ReceiptHandle, decode_receipt_handle

T = TypeVar("T")
R = TypeVar("R")
Outcome = tuple[GrpcCode, str]

_OUTCOMES: Final[dict[AckResult, Outcome]] = {
    AckResult.OK: (GrpcCode.OK, GrpcCode.OK.name),
    AckResult.EXPIRED: (
        GrpcCode.INVALID_RECEIPT_HANDLE,
        "the receipt handle has expired, or another one replaced it; the message comes again",
    ),
    AckResult.UNKNOWN: (
        GrpcCode.INTERNAL_SERVER_ERROR,
        "the receipt handle names a message that is not in this topic",
    ),
}
#: Entries of one request. SDKs send one, or those of one receive; a million would hold up everybody.
ENTRIES_MAX: Final = 4_096
#: A handle's words with the place of the record, which some clients of remoting leave out.
_WORDS_WITH_PLACE: Final = 9


class AckHandlers:
    """Answers what ends or delays deliveries."""

    def __init__(self, pop: Pop, checks: ConsumeChecks, settings: GrpcSettings, *, broker_name: str) -> None:
        self._pop = pop
        self._checks = checks
        self._settings = settings
        self._broker_name = broker_name
        #: Told of each message that was given another time: group, topic, and its handle before.
        self.on_changed: Callable[[str, str, ReceiptHandle], None] = lambda *_: None

    def ack(
        self, _caller: GrpcCaller, request: pb.AckMessageRequest
    ) -> pb.AckMessageResponse | Awaitable[pb.AckMessageResponse]:
        """End messages, each by itself: one bad handle does not keep the others from it."""
        group, topic = self._names(request)
        if not request.entries:
            raise GrpcRefused(GrpcCode.INTERNAL_SERVER_ERROR, "there is nothing to acknowledge: no entries")
        if len(request.entries) > ENTRIES_MAX:
            raise GrpcRefused(
                GrpcCode.BAD_REQUEST,
                f"there are {len(request.entries)} entries; acknowledge {ENTRIES_MAX} at most at a time",
            )
        outcomes: list[Outcome | None] = []
        handles: list[ReceiptHandle] = []
        for entry in request.entries:
            try:
                handles.append(self._handle(entry.receipt_handle))
            except GrpcRefused as refusal:
                outcomes.append((GrpcCode(refusal.code), refusal.text))
            else:
                outcomes.append(None)
        acking = self._pop.ack(group, topic, handles) if handles else Done(())
        return _when(acking, partial(_ack_response, request, outcomes))

    def change(
        self, _caller: GrpcCaller, request: pb.ChangeInvisibleDurationRequest
    ) -> pb.ChangeInvisibleDurationResponse | Awaitable[pb.ChangeInvisibleDurationResponse]:
        """Let a message be invisible for another time from now on; the answer has its new handle."""
        group, topic = self._names(request)
        invisible_ms = changed_invisible_ms(self._settings, ms_of(request.invisible_duration))
        handle = self._handle(request.receipt_handle)
        changing = self._pop.change(group, topic, handle, invisible_ms)
        if isinstance(changing, Done) and not isinstance(changing.value, AckResult):
            self.on_changed(group, topic, handle)
        return _when(changing, _change_response)

    def forward(
        self, _caller: GrpcCaller, request: pb.ForwardMessageToDeadLetterQueueRequest
    ) -> pb.ForwardMessageToDeadLetterQueueResponse | Awaitable[pb.ForwardMessageToDeadLetterQueueResponse]:
        """Store a message in the group's dead letters, and end it."""
        group, topic = self._names(request)
        self._checks.group(group)
        handle = self._handle(request.receipt_handle)
        if request.receipt_handle.count(" ") + 1 < _WORDS_WITH_PLACE:
            raise GrpcRefused(
                GrpcCode.INVALID_RECEIPT_HANDLE,
                "the receipt handle does not say where the message is; use the one that came with it",
            )
        return _when(self._pop.bury(group, topic, handle), _forward_response)

    def _names(
        self,
        request: pb.AckMessageRequest
        | pb.ChangeInvisibleDurationRequest
        | pb.ForwardMessageToDeadLetterQueueRequest,
    ) -> tuple[str, str]:
        """Return the group and the topic of a request, after a look at both names."""
        group, topic = request.group.name, request.topic.name
        self.check(group, topic)
        return group, topic

    def check(self, group: str, topic: str) -> None:
        """Raise GrpcRefused for names that may not be, or a topic that is not here."""
        check_grpc_group(group)
        self._checks.topic(topic)

    def respond(self, data: bytes, results: Sequence[AckResult]) -> pb.AckMessageResponse:
        """Return the answer to a request whose entries all had handles, with what became of each."""
        request = pb.AckMessageRequest.FromString(data)
        return _ack_response(request, [None] * len(results), results)

    def _handle(self, text: str) -> ReceiptHandle:
        try:
            handle = decode_receipt_handle(text)
        except HeaderError as error:
            raise GrpcRefused(GrpcCode.INVALID_RECEIPT_HANDLE, str(error)) from error
        if handle.broker_name != self._broker_name:
            raise GrpcRefused(
                GrpcCode.INVALID_RECEIPT_HANDLE,
                f"the message is on broker {handle.broker_name}, and this is {self._broker_name}",
            )
        return handle


def _when(pending: Awaitable[T], respond: Callable[[T], R]) -> R | Awaitable[R]:
    """Return the response to what is done, or what will be the response."""
    if isinstance(pending, Done):
        return respond(pending.value)
    return _later(pending, respond)


async def _later(pending: Awaitable[T], respond: Callable[[T], R]) -> R:
    return respond(await pending)


def _ack_response(
    request: pb.AckMessageRequest, known: Sequence[Outcome | None], results: Sequence[AckResult]
) -> pb.AckMessageResponse:
    """Return the answer with one entry for each that was asked for, in their order.

    `results` are those of the entries whose outcome was not known before.
    """
    others = iter(results)
    outcomes = [_OUTCOMES[next(others)] if outcome is None else outcome for outcome in known]
    entries = [
        pb.AckMessageResultEntry(
            message_id=entry.message_id,
            receipt_handle=entry.receipt_handle,
            status=pb.Status(code=code, message=text),
        )
        for entry, (code, text) in zip(request.entries, outcomes, strict=True)
    ]
    codes = {code for code, _ in outcomes}
    whole = codes.pop() if len(codes) == 1 else GrpcCode.MULTIPLE_RESULTS
    return pb.AckMessageResponse(status=pb.Status(code=whole, message=whole.name), entries=entries)


def _change_response(changed: ReceiptHandle | AckResult) -> pb.ChangeInvisibleDurationResponse:
    if isinstance(changed, AckResult):
        raise GrpcRefused(*_OUTCOMES[changed])
    return pb.ChangeInvisibleDurationResponse(status=_OK, receipt_handle=changed.encode())


def _forward_response(result: AckResult) -> pb.ForwardMessageToDeadLetterQueueResponse:
    if result is not AckResult.OK:
        raise GrpcRefused(*_OUTCOMES[result])
    return pb.ForwardMessageToDeadLetterQueueResponse(status=_OK)


_OK: Final = pb.Status(code=GrpcCode.OK, message=GrpcCode.OK.name)
