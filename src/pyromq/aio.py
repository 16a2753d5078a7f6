"""The client, awaitable: the same names and methods as in `pyromq`, on an asyncio loop."""

from pyromq.client.aio.admin import Admin
from pyromq.client.aio.dead_letters import DeadLetters
from pyromq.client.aio.producer import Producer
from pyromq.client.aio.pull_consumer import PullConsumer
from pyromq.client.aio.push_consumer import PushConsumer
from pyromq.client.aio.simple_consumer import SimpleConsumer
from pyromq.client.aio.transaction_producer import TransactionProducer

__all__ = [
    "Admin",
    "DeadLetters",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "SimpleConsumer",
    "TransactionProducer",
]
