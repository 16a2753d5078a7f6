"""The blocking admin client."""

from pyromq.client.operations.admin_operations import AdminOperations
from pyromq.client.sync.blocking_face import BlockingFace


class Admin(AdminOperations, BlockingFace):
    """Creates topics, finds messages, and shows what the cluster is.

    with Admin("127.0.0.1:9876") as admin:
        admin.create_topic("orders", queue_count=4)
    """
