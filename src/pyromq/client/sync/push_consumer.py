"""The blocking push consumer: the engine on a thread, the listener on others."""

from pyromq.client.operations.push_operations import PushOperations
from pyromq.client.push.engine import PushEngine, PushTerms
from pyromq.client.sync.blocking_face import BlockingFace
from pyromq.client.sync.hosted_engine import HostedEngine


class PushConsumer(PushOperations, BlockingFace):
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

    `mode="pop"` takes messages one by one from queues that all members share, and acknowledges each by itself
    (RocketMQ 5's POP): there may be more members than queues, and a slow message holds up no other. It needs
    brokers of PyroMQ or of RocketMQ 5.

    `model="broadcasting"` gives every member all messages; `order="orderly"` handles messages of one queue
    one after the other, and tries a failed one again before the next. `consume_from` says where a new group
    begins. Further arguments are fields of ClientSettings. It does not survive `fork`: a child makes its own.
    """

    _on_threads = True

    def start(self) -> None:
        """Join the group; the listener is called from now on. A `with` block does it."""
        self._engine.start()

    def close(self) -> None:
        """Wait for listeners that run, commit what is done, leave the group, and close the connections.

        A listener must not call it, which would wait for itself: RuntimeError.
        """
        self._engine.engine.check_not_in_listener()
        self._engine.close(lambda engine: engine.close())

    @property
    def client_id(self) -> str:
        """The id under which brokers know this member."""
        return self._identity()

    @property
    def subscription_conflict(self) -> str | None:
        """The conflict that brokers report when members subscribe differently, and who; None if they agree.

        It is logged as well. Apache's brokers say nothing; `pyromq admin consumerStatus` finds out there.
        """
        return self._conflict()

    def _set_engine(self, terms: PushTerms) -> None:
        self._engine = HostedEngine(f"consumer {terms.group}", PushEngine(terms))
