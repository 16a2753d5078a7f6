"""The awaitable simple consumer."""

from pyromq.client.aio.awaitable_face import AwaitableFace
from pyromq.client.operations.simple_operations import SimpleOperations


class SimpleConsumer(SimpleOperations, AwaitableFace):
    """Receives messages one by one, and acknowledges each by itself (RocketMQ 5's POP).

        async with SimpleConsumer("billing", name_server="127.0.0.1:9876") as consumer:
            consumer.subscribe("orders", "paid || refunded")
            for message in await consumer.receive():
                ...
                await consumer.ack(message)

    Members of the group share messages, and not queues: there may be more members than queues, and a slow one
    keeps nobody waiting. A message that is not acknowledged within its invisible time comes again, to any
    member. `order="orderly"` receives the messages of a queue one batch after the other.

    Many tasks may use it at once. `consume_from` says where a new group begins. It needs brokers of PyroMQ or
    of RocketMQ 5; others raise PopUnsupported.
    """

    async def close(self) -> None:
        """Tell the brokers, and close the connections; what is not acknowledged comes again."""
        await self._runner.close(self._farewell)
