"""A transport of kombu: Celery's tasks, and kombu's queues and exchanges, on RocketMQ.

    app = Celery("shop", broker="pyromq://127.0.0.1:9876")
    app.conf.broker_transport = "pyromq.kombu:Transport"

After `import pyromq.kombu` kombu knows `pyromq://` by itself.

    kombu_transport   a connection: what arrived, and who is woken
    kombu_channel     exchanges, queues and consumers, in kombu's words
    queue_readers     one queue's messages: of a group, or what fanout exchanges get from now on
    kombu_clients     the clients of one connection, and RocketMQ's topics
"""

from kombu.transport import TRANSPORT_ALIASES

from pyromq.kombu.kombu_channel import Channel
from pyromq.kombu.kombu_transport import Transport

__all__ = ["Channel", "Transport"]

TRANSPORT_ALIASES.setdefault("pyromq", "pyromq.kombu:Transport")
