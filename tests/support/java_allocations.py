"""What RocketMQ's strategies gave to random groups, as interop/programs/java/Allocations.java prints it."""

from typing import Any

from pyromq.client.consumer import allocation
from pyromq.client.consumer.allocation import Allocate
from pyromq.model import MessageQueue

Case = dict[str, Any]


def our_shares(case: Case) -> dict[str, dict[str, list[int]]]:
    """Return what our strategies give to the same group, in the same form."""
    queues = [MessageQueue(*fields) for fields in case["queues"]]
    clients = case["clients"]
    return {
        name: {
            client: [queues.index(queue) for queue in allocate("group", client, queues, clients)]
            for client in case["shares"][name]
        }
        for name, allocate in _strategies(case, queues).items()
    }


def _strategies(case: Case, queues: list[MessageQueue]) -> dict[str, Allocate]:
    plain = {
        "AVG": allocation.average,
        "AVG_BY_CIRCLE": allocation.average_by_circle,
        "CONSISTENT_HASH": allocation.consistent_hash(case["nodes"]),
    }
    nearby = {
        f"MACHINE_ROOM_NEARBY-{name}": allocation.machine_room_nearby(inner, _room_of_queue, _room_of_client)
        for name, inner in plain.items()
    }
    return {
        **plain,
        **nearby,
        "MACHINE_ROOM": allocation.by_machine_room(set(case["rooms"])),
        "CONFIG": allocation.by_config(queues[index] for index in case["config"]),
    }


def _room_of_queue(queue: MessageQueue) -> str:
    return queue.broker_name.rpartition("-")[2]


def _room_of_client(client_id: str) -> str:
    return client_id[client_id.index("@") + 1 : client_id.index("#")]
