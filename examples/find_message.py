"""Create a topic, send a message, and find it again by its key and by its ids.

python examples/find_message.py [HOST:PORT of the name server]
"""

import os
import sys

from pyromq import Admin, Message, Producer


def main(name_server: str) -> None:
    """Show the three ways to a message that was sent."""
    with Admin(name_server) as admin, Producer("parcels-service", name_server) as producer:
        admin.create_topic("parcels", queue_count=4)
        sent = producer.send(Message("parcels", b"a parcel to Turku", keys=["parcel-7"]))
        print("by key", admin.query_message("parcels", "parcel-7")[-1].body.decode())
        print("by its producer's id", admin.find_message("parcels", sent.message_id).body.decode())
        print("by its place", admin.view_message(sent.offset_message_id).body.decode())


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
