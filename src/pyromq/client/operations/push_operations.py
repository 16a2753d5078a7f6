"""The methods of the push consumer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeAlias, TypeVar

from pyromq.client.consumer.allocation import Allocate, average
from pyromq.client.hooks import ConsumeHook
from pyromq.client.operations.declaration import ClientOperations, EngineCall, OnEngine
from pyromq.client.push.delivery import BatchListener, Listener
from pyromq.client.push.engine import PushEngine, PushTerms
from pyromq.client.push.terms import new_terms
from pyromq.config.settings import ClientSettings
from pyromq.model import ConsumeFrom, MessageQueue

T = TypeVar("T")
Call: TypeAlias = OnEngine[PushEngine, T]


class PushOperations(ClientOperations):
    """Subscribing, and holding back messages."""

    #: Whether the listener is called on threads, and not on the loop.
    _on_threads: ClassVar[bool]

    def __init__(
        self,
        group: str,
        name_server: str | None = None,
        *,
        listener: Listener | None = None,
        batch_listener: BatchListener | None = None,
        mode: str = "pull",
        model: str = "clustering",
        order: str = "concurrent",
        settings: ClientSettings | None = None,
        allocate: Allocate = average,
        consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET,
        consume_timestamp: str | datetime | None = None,
        hooks: Sequence[ConsumeHook] = (),
        **changes: Any,
    ) -> None:
        self.group = group
        self._set_engine(
            new_terms(
                group=group,
                name_server=name_server,
                listener=listener,
                batch_listener=batch_listener,
                mode=mode,
                model=model,
                order=order,
                settings=settings,
                allocate=allocate,
                consume_from=consume_from,
                consume_timestamp=consume_timestamp,
                hooks=hooks,
                changes=changes,
                on_threads=self._on_threads,
            )
        )

    def _set_engine(self, terms: PushTerms) -> None:
        """Make the engine; each face has its own kind."""
        raise NotImplementedError

    @EngineCall
    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Call[None]:
        """Want messages of a topic: all, those with one of the tags "a || b", or those that `sql` takes.

        All members of a group must subscribe to the same. It may be called before the start and after it.
        """
        return lambda engine: engine.subscribe(topic, tags, sql)

    @EngineCall
    def unsubscribe(self, topic: str) -> Call[None]:
        """Want no more messages of a topic."""
        return lambda engine: engine.unsubscribe(topic)

    @EngineCall
    def suspend(self) -> Call[None]:
        """Take no further messages until `resume`; the consumer stays in its group."""
        return lambda engine: engine.suspend(is_suspended=True)

    @EngineCall
    def resume(self) -> Call[None]:
        """Go on after `suspend`."""
        return lambda engine: engine.suspend(is_suspended=False)

    @EngineCall
    def update_core_pool_size(self, size: int) -> Call[None]:
        """Let that many listener calls run at once, up to `consume_thread_max`; those that run end first."""
        return lambda engine: engine.resize(size)

    @EngineCall
    def assignment(self) -> Call[list[MessageQueue]]:
        """Return the queues that are this member's now."""
        return lambda engine: engine.member.assignment

    @EngineCall
    def _conflict(self) -> Call[str | None]:
        return lambda engine: engine.member.session.subscription_conflict

    @EngineCall
    def _identity(self) -> Call[str]:
        return lambda engine: engine.member.session.identity.client_id
