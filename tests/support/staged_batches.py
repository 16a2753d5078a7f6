"""Batches that are staged and published: chunks with known ids, and the ids that consumers can read."""

from collections import Counter
from collections.abc import Iterable

from pyromq import Admin, PullConsumer, PullStatus
from pyromq.client.sync.staged import StagedPart, StagedSends
from pyromq.wire.batch import BatchUnit, encode_batch

TOPIC = "orders"


def units(ids: Iterable[str], *, more: str = "") -> bytes:
    """Return a chunk of messages with these unique ids, which are their bodies too."""
    return encode_batch([BatchUnit(0, one.encode(), f"UNIQ_KEY\x01{one}{more}") for one in ids])


def stage_part(
    sends: StagedSends, batch: int, part: int, *, query: str = "q", chunks: int = 4, each: int = 3
) -> tuple[StagedPart, list[str]]:
    """Stage chunks over all queues in turn; return the part and the ids of its messages."""
    writer = sends.writer(query=query, batch=batch, part=part)
    queues, staged = writer.queues(TOPIC), []
    for chunk in range(chunks if queues else 0):
        ids = [f"{query}-{batch}-{part}-{chunk}-{row}" for row in range(each)]
        writer.stage(queues[(part + chunk) % len(queues)], units(ids), each)
        staged += ids
    return writer.finish(), staged


def ids_of(batch: int, parts: int = 2, *, query: str = "q", chunks: int = 4, each: int = 3) -> list[str]:
    """Return what `stage_part` stages for all parts of a batch."""
    return [
        f"{query}-{batch}-{part}-{chunk}-{row}"
        for part in range(parts)
        for chunk in range(chunks)
        for row in range(each)
    ]


def readable(name_server: str, topic: str = TOPIC) -> "Counter[str]":
    """Return how often each id can be read by a consumer."""
    found: Counter[str] = Counter()
    with PullConsumer("readers", name_server) as consumer:
        for queue in consumer.queues(topic):
            offset = consumer.min_offset(queue)
            while (pulled := consumer.pull(queue, offset)).status is PullStatus.FOUND:
                found.update(message.message_id for message in pulled.messages)
                offset = pulled.next_offset
    return found


def make_topic(name_server: str, *, queues: int = 2, topic: str = TOPIC) -> None:
    """Create a topic on all brokers."""
    with Admin(name_server) as admin:
        admin.create_topic(topic, queues)
