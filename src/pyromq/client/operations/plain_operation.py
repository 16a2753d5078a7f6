"""The declaration of `send`: a plan, and the shorter way of plain sends.

See `client/producer/plain_teaching.py` for which sends are plain, and what becomes of them otherwise.
"""

from typing import Any

from pyromq.client.operations.declaration import Body, Method, Operation, P, T
from pyromq.errors import PyroError
from pyromq.model import Message, SendResult


def _send(body: Body) -> Method:
    def call(self: Any, message: Message, *, timeout_ms: int | None = None, **target: Any) -> Any:
        plain = self._runner.plain_sends
        if plain is not None and not target:
            result = plain.send(message, timeout_ms)
            if result is not None:
                return result
        return self._runner.run(body(self, message, timeout_ms=timeout_ms, **target))

    return call


def _send_on_loop(body: Body) -> Method:
    async def call(self: Any, message: Message, *, timeout_ms: int | None = None, **target: Any) -> Any:
        plain = self._runner.plain_sends
        begun = plain.begin(message, timeout_ms) if plain is not None and not target else None
        if begun is None:
            return await self._runner.run(body(self, message, timeout_ms=timeout_ms, **target))
        outcome = None
        if begun.frame is not None:
            try:
                outcome = await begun.answer
            except PyroError as error:
                outcome = error
            except BaseException:
                # Nobody waits any more: a cancelled task, or a coroutine that was closed.
                begun.link.waiting.pop(begun.opaque, None)
                raise
            if outcome.__class__ is SendResult:
                return outcome
        return await plain.go_on(message, begun, outcome)

    return call


class PlainOperation(Operation[P, T]):
    """A send, which is carried out without its plan while nothing about it needs a decision."""

    makers = _send, _send_on_loop
