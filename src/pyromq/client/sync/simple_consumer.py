"""The blocking simple consumer."""

from pyromq.client.operations.simple_operations import SimpleOperations
from pyromq.client.sync.blocking_face import BlockingFace


class SimpleConsumer(SimpleOperations, BlockingFace):
    """Receives messages one by one, and acknowledges each by itself (RocketMQ 5's POP).

        with SimpleConsumer("billing", name_server="127.0.0.1:9876") as consumer:
            consumer.subscribe("orders", "paid || refunded")
            for message in consumer.receive():
                ...
                consumer.ack(message)

    Members of the group share messages, and not queues: there may be more members than queues, and a slow one
    keeps nobody waiting. A message that is not acknowledged within its invisible time comes again, to any
    member. `order="orderly"` receives the messages of a queue one batch after the other.

    Safe to use from many threads, and in a child of `fork`. `consume_from` says where a new group begins.
    It needs brokers of PyroMQ or of RocketMQ 5; others raise PopUnsupported.
    """

    def close(self) -> None:
        """Tell the brokers, and close the connections; what is not acknowledged comes again."""
        self._runner.close(self._farewell)
