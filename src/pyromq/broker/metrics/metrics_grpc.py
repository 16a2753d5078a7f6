"""The metrics of RocketMQ 5's gRPC services: connections, calls, and what calls were answered.

A broker without a gRPC port has them too, without values; before the first connection all counts are 0.
"""

import re
from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Final

from pyromq.net.latency import RequestTimes
from pyromq.net.metrics import Figure, FigureKind, Values
from pyromq.wire.grpc.grpc_codes import GrpcCode

if TYPE_CHECKING:
    from pyromq.broker.grpc.grpc_door import GrpcDoor
    from pyromq.broker.grpc.grpc_opening import OpenedGrpc

PROTOCOL: Final = "grpc"
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


def grpc_figures(grpc: "OpenedGrpc") -> list[Figure]:
    """Return the metrics of the gRPC port, if there is one."""

    def count(read: "Callable[[GrpcDoor], int]") -> Callable[[], Values]:
        def values() -> Values:
            if grpc.at is None:
                return {}
            return {(): 0 if grpc.door is None else read(grpc.door)}

        return values

    def calls() -> Values:
        counted = {} if grpc.door is None else grpc.door.calls
        return {(_word(name), _code(code)): number for (name, code), number in counted.items()}

    return [
        Figure(
            "pyromq_grpc_connections",
            "Open connections of RocketMQ 5's SDKs.",
            (),
            count(lambda door: len(door.links)),
        ),
        Figure(
            "pyromq_grpc_streams",
            "Calls of RocketMQ 5's SDKs that are not over: Telemetry, receives that wait, and others.",
            (),
            count(lambda door: sum(link.call_count for link in door.links)),
        ),
        Figure(
            "pyromq_grpc_clients",
            "Clients of RocketMQ 5's SDKs that are known, whatever connections they have.",
            (),
            count(lambda door: len(door.members)),
        ),
        Figure(
            "pyromq_grpc_calls_total",
            "Calls of RocketMQ 5's SDKs that were answered, by what they were answered.",
            ("rpc", "code"),
            calls,
            FigureKind.COUNTER,
        ),
    ]


def time_calls(door: "GrpcDoor", times: RequestTimes) -> None:
    """Time all calls that take the way through Python, from now on."""

    def done(name: str, code: int, began: float, *, is_held: bool) -> None:
        labels = (PROTOCOL, _word(name), _code(code), str(is_held).lower())
        times.histogram.observe((perf_counter() - began) * 1000, labels)

    door.table.on_done = done


@cache
def _word(name: str) -> str:
    return _CAPITAL.sub("_", name).lower()


@cache
def _code(code: int) -> str:
    try:
        return GrpcCode(code).name.lower()
    except ValueError:
        return str(code)
