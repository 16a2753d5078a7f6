"""Send many small messages of one topic in one request, and more than fit in one.

python examples/batch.py [HOST:PORT of the name server]
"""

import os
import sys

from pyromq import ClientSettings, Message, Producer


def main(name_server: str) -> None:
    """Send 50 readings, all or none of them; then 50 in batches of 2 KiB, where 4 MiB would be the limit."""
    readings = [Message("readings", f"{number} degrees".encode(), tags="cellar") for number in range(50)]
    with Producer("sensor", name_server) as producer:
        result = producer.send_batch(readings)
    print(result.status, f"{len(result.message_id.split(','))} messages from offset {result.queue_offset} on")

    with Producer("sensor", name_server, ClientSettings(max_message_size=2_048)) as producer:
        results = producer.send_batches(readings)
    print(f"50 more in {len(results)} batches")


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
