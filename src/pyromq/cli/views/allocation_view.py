"""A view of how members would share a topic's queues."""

from collections.abc import Sequence

from pyromq.cli.views.listing import Listing
from pyromq.client.consumer.allocation import average
from pyromq.client.sync.admin import Admin
from pyromq.codes import Perm
from pyromq.model import MessageQueue


def allocations(admin: Admin, topic: str, members: Sequence[str]) -> Listing:
    """The queues that each member would get."""
    queues = sorted(
        MessageQueue(topic, part.broker_name, number)
        for part in admin.route(topic).queue_datas
        if part.perm & Perm.READ
        for number in range(part.read_queue_nums)
    )
    names = sorted(member.strip() for member in members if member.strip())
    return Listing(
        (("#Member", "member"), ("#Count", "count"), ("#Queues", "shown")),
        [
            {
                "member": name,
                "count": len(own),
                "shown": [f"{queue.broker_name}:{queue.queue_id}" for queue in own],
                "queues": [{"broker": queue.broker_name, "queue": queue.queue_id} for queue in own],
            }
            for name in names
            for own in (average("admin", name, queues, names),)
        ],
    )
