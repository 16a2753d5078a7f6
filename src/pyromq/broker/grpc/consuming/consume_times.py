"""The times that consumers ask for: how long a receive waits, and how long its messages are invisible.

RocketMQ 5's proxy refuses a receive whose deadline is too short for its shortest wait. Here such a receive
waits as long as it can, unless `grpcStrictPollingTime` is set. Its answer leaves some time before the
deadline, because one that arrives at the deadline is lost.
"""

from typing import Final, NamedTuple

from pyromq.broker.grpc.grpc_callers import GrpcCaller
from pyromq.broker.grpc.grpc_members import GrpcMembers
from pyromq.clock import Clock
from pyromq.config.grpc_settings import GrpcSettings
from pyromq.net.http2.grpc_calls import GrpcCall
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused

#: Milliseconds between the answer and the deadline: as much as a busy machine and a network may take.
ANSWER_AHEAD_MS: Final = 200
#: Clients from this version on know ILLEGAL_POLLING_TIME; versions are compared as text, as the proxy does.
_KNOWS_POLLING_TIME: Final = "5.0.3"


class AskedTime(NamedTuple):
    """The times of a request: how long it wants to wait, if it says, and how long its caller does."""

    polling_ms: int | None
    remaining_ms: int | None
    #: The request timeout of the client's settings.
    request_timeout_ms: int
    #: As the client says it; empty: it does not.
    client_version: str


def polling_ms(settings: GrpcSettings, asked: AskedTime) -> int:
    """Return how long a receive may wait for a message; raise GrpcRefused where that is too short."""
    shortest = settings.grpc_client_consumer_min_long_polling_timeout_millis
    longest = settings.grpc_client_consumer_max_long_polling_timeout_millis
    remaining = asked.remaining_ms
    wanted = asked.polling_ms
    if wanted is None:
        # C++'s push consumer and Go's simple one do not say; their deadline does.
        wanted = longest if remaining is None else remaining - asked.request_timeout_ms // 2
    wanted = min(max(wanted, shortest), longest)
    if remaining is None:
        return wanted
    if remaining < shortest and settings.grpc_strict_polling_time:
        is_known = asked.client_version >= _KNOWS_POLLING_TIME
        raise GrpcRefused(
            GrpcCode.ILLEGAL_POLLING_TIME if is_known else GrpcCode.BAD_REQUEST,
            f"the deadline is {remaining} ms away, and a receive waits {shortest} ms at least: "
            "raise the request timeout",
        )
    return max(min(wanted, remaining - ANSWER_AHEAD_MS), 0)


class ReceiveWaits:
    """Says how long the receives of clients wait; a client that receives is alive."""

    def __init__(self, settings: GrpcSettings, clock: Clock, members: GrpcMembers) -> None:
        self._settings = settings
        self._clock = clock
        self._members = members

    def polling_ms(self, call: GrpcCall, caller: GrpcCaller, wanted_ms: int | None) -> int:
        """Return how long a call may wait for messages; raise GrpcRefused where that is too short."""
        remaining_ms = None
        if call.deadline is not None:
            remaining_ms = int((call.deadline - self._clock.monotonic()) * 1000)
        timeout_ms = self._members.seen(caller).request_timeout_ms
        return polling_ms(self._settings, AskedTime(wanted_ms, remaining_ms, timeout_ms, caller.version))


def received_invisible_ms(settings: GrpcSettings, asked_ms: int, *, is_renewed: bool) -> int:
    """Return how long the messages of a receive are invisible; raise GrpcRefused for what may not be.

    A consumer that has them renewed does not decide.
    """
    if is_renewed:
        return settings.default_invisible_time_mills
    shortest, longest = settings.min_invisible_time_mills_for_recv, settings.max_invisible_time_mills
    if not shortest <= asked_ms <= longest:
        raise _illegal(asked_ms, shortest, longest)
    return asked_ms


def changed_invisible_ms(settings: GrpcSettings, asked_ms: int) -> int:
    """Return how long a message stays invisible from now on; raise GrpcRefused for what may not be."""
    if not 0 <= asked_ms <= settings.max_invisible_time_mills:
        raise _illegal(asked_ms, 0, settings.max_invisible_time_mills)
    return asked_ms


def _illegal(asked_ms: int, at_least: int, at_most: int) -> GrpcRefused:
    return GrpcRefused(
        GrpcCode.ILLEGAL_INVISIBLE_TIME,
        f"the invisible time is {asked_ms} ms; it may be from {at_least} to {at_most} ms",
    )
