"""The awaitable admin client."""

from pyromq.client.aio.awaitable_face import AwaitableFace
from pyromq.client.operations.admin_operations import AdminOperations


class Admin(AdminOperations, AwaitableFace):
    """Creates topics, finds messages, and shows what the cluster is.

    async with Admin("127.0.0.1:9876") as admin:
        await admin.create_topic("orders", queue_count=4)
    """
