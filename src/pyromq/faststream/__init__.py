"""A broker for FastStream: its subscribers, publishers, routers, tests and AsyncAPI, on RocketMQ.

broker = RocketBroker("127.0.0.1:9876", group="billing")

@broker.subscriber("orders", tags="paid")
@broker.publisher("invoices")
async def charge(order: Order) -> Invoice: ...

rocket_broker    the broker, routers, and what is declared on them
rocket_endpoints subscribers on push consumers, publishers, and what AsyncAPI says of both
rocket_messages  messages, their parser, and what is to be published
rocket_producer  publishing and requests
rocket_testing   the same without a broker
"""

from pyromq.faststream.rocket_broker import RocketBroker, RocketPublisherRoute, RocketRoute, RocketRouter
from pyromq.faststream.rocket_messages import RocketMessage, RocketResponse
from pyromq.faststream.rocket_testing import TestRocketBroker

__all__ = [
    "RocketBroker",
    "RocketMessage",
    "RocketPublisherRoute",
    "RocketResponse",
    "RocketRoute",
    "RocketRouter",
    "TestRocketBroker",
]
