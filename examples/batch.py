"""Send many small messages of one topic in one request.

python examples/batch.py 127.0.0.1:9876
"""

import sys

from pyromq import Message, Producer


def main(name_server: str) -> None:
    """Send 50 readings; all are stored, or none. A batch may have up to 4 MiB."""
    readings = [Message("readings", f"{number} degrees".encode(), tags="cellar") for number in range(50)]
    with Producer("sensor", name_server) as producer:
        result = producer.send_batch(readings)
    print(result.status, f"{len(result.message_id.split(','))} messages from offset {result.queue_offset} on")


if __name__ == "__main__":
    main(sys.argv[1])
