"""Memory for what is kept of calls that wait for their answers: one limit for all clients of a broker."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused

BYTES_MAX: Final = 64 * 1024 * 1024


class WaitingBytes:
    """Bytes of requests whose answers wait: for messages, the disk, slaves, or other servers."""

    __slots__ = ("count", "count_max")

    def __init__(self, count_max: int = BYTES_MAX) -> None:
        self.count = 0
        self.count_max = count_max

    def check(self) -> None:
        """Raise GrpcRefused when there is no memory for one more."""
        if self.count >= self.count_max:
            raise GrpcRefused(
                GrpcCode.TOO_MANY_REQUESTS,
                f"the calls that wait for their answers have {self.count_max} bytes; wait, and call again",
            )

    def own(self, answering: Coroutine[Any, Any, Any], size: int) -> "asyncio.Task[Any]":
        """Return the task that gives an answer, for which so many bytes are kept until it ends in any way."""
        task = asyncio.ensure_future(answering)
        self.count += size

        def ended(_task: "asyncio.Task[Any]") -> None:
            self.count -= size

        task.add_done_callback(ended)
        return task
