"""The awaitable push consumer."""

from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from pyromq.client.allocation import Allocate, average
from pyromq.client.hooks import ConsumeHook
from pyromq.client.push.delivery import BatchListener, Listener
from pyromq.client.push.engine import Engine
from pyromq.client.push.terms import new_terms
from pyromq.config.settings import ClientSettings
from pyromq.model import ConsumeFrom, MessageQueue


class PushConsumer:
    """Has a listener called with every message of the topics it subscribes to.

        async def handle(message): ...

        async with PushConsumer("billing", name_server="127.0.0.1:9876", listener=handle) as consumer:
            consumer.subscribe("orders", "paid || refunded")
            await stopped.wait()

    A message is done when the listener returns None or True. It comes again, later each time, when the
    listener raises or returns False; after 16 tries it goes to the group's dead letters (%DLQ%group).

    The listener is a coroutine function, of which 20 calls run at once (`consume_thread_min`), or a plain
    function that never blocks. With a second parameter it gets the `Delivery` too. A `batch_listener` takes
    a list of up to `consume_message_batch_max_size` messages of one queue.

    `model="broadcasting"` gives every member all messages; `order="orderly"` handles messages of one queue
    one after the other, and tries a failed one again before the next. `consume_from` says where a new group
    begins. Further arguments are fields of ClientSettings.
    """

    def __init__(
        self,
        group: str,
        name_server: str | None = None,
        *,
        listener: Listener | None = None,
        batch_listener: BatchListener | None = None,
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
        self._engine = Engine(
            new_terms(
                group=group,
                name_server=name_server,
                listener=listener,
                batch_listener=batch_listener,
                model=model,
                order=order,
                settings=settings,
                allocate=allocate,
                consume_from=consume_from,
                consume_timestamp=consume_timestamp,
                hooks=hooks,
                changes=changes,
                on_threads=False,
            )
        )

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Want messages of a topic: all, those with one of the tags «a || b», or those that `sql` takes.

        All members of a group must subscribe to the same. It may be called before the start and after it.
        """
        self._engine.subscribe(topic, tags, sql)

    def unsubscribe(self, topic: str) -> None:
        """Want no more messages of a topic."""
        self._engine.unsubscribe(topic)

    async def start(self) -> None:
        """Join the group; the listener is called from now on. An `async with` block does it."""
        await self._engine.start()

    async def close(self) -> None:
        """Wait for listeners that run, commit what is done, leave the group, and close the connections.

        A listener must not call it, which would wait for itself: RuntimeError.
        """
        self._engine.check_not_in_listener()
        await self._engine.close()

    def suspend(self) -> None:
        """Take no further messages until `resume`; the consumer stays in its group."""
        self._engine.check_running()
        self._engine.suspend()

    def resume(self) -> None:
        """Go on after `suspend`."""
        self._engine.check_running()
        self._engine.resume()

    def update_core_pool_size(self, size: int) -> None:
        """Let that many listener calls run at once, up to `consume_thread_max`; those that run end first."""
        self._engine.resize(size)

    @property
    def client_id(self) -> str:
        """The id under which brokers know this member."""
        self._engine.check_running()
        return self._engine.member.session.identity.client_id

    @property
    def subscription_conflict(self) -> str | None:
        """What brokers say when members of the group subscribe differently, and who; None if they agree.

        It is logged as well. Apache's brokers say nothing; `pyromq admin consumerStatus` finds out there.
        """
        self._engine.check_running()
        return self._engine.member.session.subscription_conflict

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that are this member's now."""
        self._engine.check_running()
        return sorted(self._engine.member.queues)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
