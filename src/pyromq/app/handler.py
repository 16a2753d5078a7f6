"""One handler: a function, the type of its body, and what its errors mean for a message."""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, get_type_hints

from pyromq.app.handler_terms import HandlerTerms
from pyromq.app.outcomes import Outcome, Reject, Result, RetryLater
from pyromq.app.typed_bodies import BadBody, Decode, decoder_of
from pyromq.client.push.delivery import ConsumeResult, Delivery
from pyromq.errors import ConfigError, PyroError
from pyromq.model import ReceivedMessage
from pyromq.once.guard import once
from pyromq.wire import properties as names

log = logging.getLogger("pyromq.app")

#: Properties of a message in a handler's own dead letter topic: why it is there, and which group gave it up.
#: Its first topic and id are in those that RocketMQ 5 has for dead letters.
DEAD_REASON, DEAD_GROUP = "DEAD_REASON", "DEAD_GROUP"
#: Characters of a reason: properties are short.
REASON_CHARACTERS_MAX: Final = 500
#: The delay level of a message that is not to come again.
_NEVER: Final = -1
_LEVEL_MS: Final = (0, 1_000, 5_000, 10_000, 30_000)

Call: TypeAlias = Callable[[ReceivedMessage, Delivery], Awaitable[object]]


class Publish(Protocol):
    """Sends a value to a topic."""

    def __call__(
        self,
        topic: str,
        body: object,
        *,
        keys: list[str] | tuple[str, ...] = (),
        tags: str | None = None,
        properties: dict[str, str] | None = None,
    ) -> Awaitable[object]:
        """Send."""
        ...


class Handler:
    """A function and its terms. `listen` is what a push consumer calls."""

    def __init__(self, function: Callable[..., Any], terms: HandlerTerms, publish: Publish) -> None:
        self.function = function
        self.terms = terms
        self.name = getattr(function, "__name__", type(function).__name__)
        self._publish = publish
        self._parameters, annotation, result = _parameters_of(function)
        if terms.publishes is None and result not in (None, type(None), inspect.Parameter.empty, Any):
            raise ConfigError(
                f"handler {self.name} returns {getattr(result, '__name__', result)}: say where that goes "
                "with publishes=TOPIC, or annotate it with -> None"
            )
        self._decode: Decode = decoder_of(annotation)
        self._is_async = inspect.iscoroutinefunction(function)
        self._threads: ThreadPoolExecutor | None = None
        self._has_warned = False
        self._call: Call = self._handle
        if terms.once is not None:
            self._call = once(terms.once, key=terms.key or _first_key)(self._handle)

    async def listen(self, message: ReceivedMessage, delivery: Delivery) -> ConsumeResult:
        """Handle a message, and return what a push consumer is to do with it."""
        return (await self.handle(message, delivery))[1]

    async def handle(self, message: ReceivedMessage, delivery: Delivery) -> tuple[Outcome, ConsumeResult]:
        """Handle a message; return the outcome and the push consumer's answer, and set the delivery."""
        outcome = await self._outcome(message, delivery)
        if outcome.result is Result.DONE:
            return outcome, ConsumeResult.SUCCESS
        is_dead = outcome.result is Result.DEAD
        self._log(message, outcome)
        if is_dead and self.terms.dead_letter is not None:
            try:
                await self._bury(self.terms.dead_letter, message, outcome)
            except PyroError as error:
                # Kept by its group until the topic takes it.
                log.warning(
                    "%s: message %s stays: its dead letter topic %s does not take it: %s",
                    self.name,
                    message.message_id,
                    self.terms.dead_letter,
                    error,
                )
                return Outcome(Result.RETRIED, error), ConsumeResult.RECONSUME_LATER
            return outcome, ConsumeResult.SUCCESS
        if is_dead:
            delivery.delay_level = _NEVER
        elif self.terms.ordered:
            delivery.suspend_ms = _LEVEL_MS[outcome.level] if 0 < outcome.level < len(_LEVEL_MS) else None
        else:
            delivery.delay_level = outcome.level
        return outcome, ConsumeResult.RECONSUME_LATER

    def open(self) -> None:
        """Have the threads that a plain function runs on."""
        if not self._is_async and self._threads is None:
            self._threads = ThreadPoolExecutor(self.terms.concurrency, f"pyromq-{self.name}")

    def close(self) -> None:
        """Let the threads go; calls that run end first."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    # Inside

    async def _outcome(self, message: ReceivedMessage, delivery: Delivery) -> Outcome:
        try:
            answer = await self._call(message, delivery)
        except (Reject, BadBody) as error:
            return Outcome(Result.DEAD, error)
        except RetryLater as error:
            return self._tried(message, error, error.level)
        except Exception as error:  # noqa: BLE001  the border to the application: its errors are an outcome
            return self._tried(message, error, None)
        if answer in (ConsumeResult.RECONSUME_LATER, False):
            # Of a guard: another works on the same key.
            return Outcome(Result.RETRIED, None, self.terms.level(message.reconsume_times))
        return Outcome(Result.DONE)

    def _tried(self, message: ReceivedMessage, error: Exception, level: int | None) -> Outcome:
        """Return the outcome of a try that failed; the last one makes the message a dead letter."""
        terms, retries = self.terms, self.terms.retries_of()
        is_last = retries is not None and message.reconsume_times >= retries
        # What failed in broadcasting does not come again.
        if is_last or terms.broadcast or isinstance(error, terms.give_up_on):
            return Outcome(Result.DEAD, error)
        return Outcome(
            Result.RETRIED, error, self.terms.level(message.reconsume_times) if level is None else level
        )

    async def _handle(self, message: ReceivedMessage, delivery: Delivery) -> object:
        values = {"body": self._decode(message.body), "message": message, "delivery": delivery}
        arguments = {name: values[role] for name, role in self._parameters.items()}
        if self._is_async:
            answer = await self.function(**arguments)
        else:
            self.open()
            run = partial(contextvars.copy_context().run, partial(self.function, **arguments))
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, run)
        if answer is not None:
            await self._pass_on(answer, message)
        return None

    async def _pass_on(self, answer: object, message: ReceivedMessage) -> None:
        if self.terms.publishes is not None:
            await self._publish(self.terms.publishes, answer, keys=message.keys)
        elif not self._has_warned:
            self._has_warned = True
            log.warning(
                "handler %s returned a %s, which goes nowhere: give it publishes=TOPIC, or return None; "
                "raise RetryLater or Reject for a message that failed",
                self.name,
                type(answer).__name__,
            )

    async def _bury(self, topic: str, message: ReceivedMessage, outcome: Outcome) -> None:
        own = {name: value for name, value in message.properties.items() if name not in names.RESERVED}
        await self._publish(
            topic,
            message.body,
            keys=message.keys,
            tags=message.tags,
            properties={
                **own,
                DEAD_REASON: f"{outcome.error!r}"[:REASON_CHARACTERS_MAX],
                names.DLQ_ORIGIN_TOPIC: message.topic,
                names.DLQ_ORIGIN_MESSAGE_ID: message.message_id,
                DEAD_GROUP: self.terms.group,
            },
        )

    def _log(self, message: ReceivedMessage, outcome: Outcome) -> None:
        error = outcome.error
        if error is None:
            return
        what = "is a dead letter" if outcome.result is Result.DEAD else "comes again"
        is_expected = isinstance(error, Reject | RetryLater | BadBody)
        log.warning(
            "handler %s: message %s of %s %s (try %d): %s",
            self.name,
            message.message_id,
            message.topic,
            what,
            message.reconsume_times + 1,
            error if is_expected else repr(error),
            exc_info=None if is_expected else error,
        )


def _first_key(message: ReceivedMessage) -> str:
    return message.keys[0]


def _parameters_of(function: Callable[..., Any]) -> tuple[dict[str, str], Any, Any]:
    """Return the role of each parameter, the type of the body, and that of the result."""
    name = getattr(function, "__name__", repr(function))
    try:
        signature = inspect.signature(function)
        hints = get_type_hints(function)
    except (TypeError, NameError) as error:
        raise ConfigError(f"the parameters of handler {name} cannot be read: {error}") from error
    roles: dict[str, str] = {}
    annotation: Any = Any
    for parameter in signature.parameters.values():
        hint = hints.get(parameter.name, Any)
        if hint is ReceivedMessage:
            roles[parameter.name] = "message"
        elif hint is Delivery:
            roles[parameter.name] = "delivery"
        elif parameter.default is not inspect.Parameter.empty:
            continue
        elif "body" in roles.values() or parameter.kind in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
            inspect.Parameter.POSITIONAL_ONLY,
        ):
            raise ConfigError(
                f"handler {name} takes {parameter.name}, which is nothing that a message has: a handler has "
                "one parameter for the body, and may have one annotated with ReceivedMessage"
            )
        else:
            roles[parameter.name] = "body"
            annotation = hint
    if not roles:
        raise ConfigError(f"handler {name} takes no parameter: def {name}(body) takes the body of a message")
    return roles, annotation if "body" in roles.values() else bytes, hints.get("return")
