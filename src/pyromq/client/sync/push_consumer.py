"""The blocking push consumer: the engine on a thread, the listener on others."""

from collections.abc import Callable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from pyromq.client.allocation import Allocate, average
from pyromq.client.hooks import ConsumeHook
from pyromq.client.push.delivery import BatchListener, Listener
from pyromq.client.push.engine import Engine
from pyromq.client.push.terms import new_terms
from pyromq.client.sync.hosted import HostedLoop
from pyromq.config.settings import ClientSettings
from pyromq.model import ConsumeFrom, MessageQueue

T = TypeVar("T")


class PushConsumer:
    """Has a listener called with every message of the topics it subscribes to.

        def handle(message): ...

        with PushConsumer("billing", name_server="127.0.0.1:9876", listener=handle) as consumer:
            consumer.subscribe("orders", "paid || refunded")
            stopped.wait()

    A message is done when the listener returns None or True. It comes again, later each time, when the
    listener raises or returns False; after 16 tries it goes to the group's dead letters (%DLQ%group).

    The listener is called on up to 20 threads at once (`consume_thread_min`), so it must be safe for that.
    With a second parameter it gets the `Delivery` too. A `batch_listener` takes a list of up to
    `consume_message_batch_max_size` messages of one queue.

    `model="broadcasting"` gives every member all messages; `order="orderly"` handles messages of one queue
    one after the other, and tries a failed one again before the next. `consume_from` says where a new group
    begins. Further arguments are fields of ClientSettings. It does not survive `fork`: a child makes its own.
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
                on_threads=True,
            )
        )
        self._host = HostedLoop(f"consumer {group}")

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Want messages of a topic: all, those with one of the tags «a || b», or those that `sql` takes.

        All members of a group must subscribe to the same. It may be called before the start and after it.
        """
        self._do(lambda: self._engine.subscribe(topic, tags, sql))

    def unsubscribe(self, topic: str) -> None:
        """Want no more messages of a topic."""
        self._do(lambda: self._engine.unsubscribe(topic))

    def start(self) -> None:
        """Join the group; the listener is called from now on. A `with` block does it."""
        self._host.start()
        try:
            self._host.run(self._engine.start())
        except BaseException:
            self._host.close()
            # Nothing was begun that a second try could not do better.
            self._host = HostedLoop(f"consumer {self.group}")
            raise

    def close(self) -> None:
        """Wait for listeners that run, commit what is done, leave the group, and close the connections.

        A listener must not call it, which would wait for itself: RuntimeError.
        """
        self._engine.check_not_in_listener()
        if self._host.is_running:
            try:
                self._host.run(self._engine.close())
            finally:
                self._host.close()
        else:
            self._host.close()

    def suspend(self) -> None:
        """Take no further messages until `resume`; the consumer stays in its group."""
        self._host.run(_later(self._engine.suspend))

    def resume(self) -> None:
        """Go on after `suspend`."""
        self._host.run(_later(self._engine.resume))

    def update_core_pool_size(self, size: int) -> None:
        """Let that many listener calls run at once, up to `consume_thread_max`; those that run end first."""
        self._host.run(_later(lambda: self._engine.resize(size)))

    @property
    def client_id(self) -> str:
        """The id under which brokers know this member."""
        return self._host.run(_later(lambda: self._engine.member.session.identity.client_id))

    @property
    def subscription_conflict(self) -> str | None:
        """What brokers say when members of the group subscribe differently, and who; None if they agree.

        It is logged as well. Apache's brokers say nothing; `pyromq admin consumerStatus` finds out there.
        """
        return self._host.run(_later(lambda: self._engine.member.session.subscription_conflict))

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that are this member's now."""
        return self._host.run(_later(lambda: sorted(self._engine.member.queues)))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _do(self, change: Callable[[], None]) -> None:
        """Make a change on the engine's loop, or here before there is one."""
        if self._host.is_started:
            self._host.run(_later(change))
        else:
            change()


async def _later(function: Callable[[], T]) -> T:
    return function()
