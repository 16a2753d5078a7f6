"""A task's write of its partition's rows, whichever way they are written."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pyromq.model import MessageQueue
from pyspark_rocketmq.sink.chunks import Chunks, by_topic, delayed
from pyspark_rocketmq.sink.handing import Hand
from pyspark_rocketmq.sink.outlets import Outlet, WritePart, WrittenPart, open_outlet
from pyspark_rocketmq.sink.rows import take
from pyspark_rocketmq.sink.sink_options import SinkOptions
from pyspark_rocketmq.sink.units import Encoder, id_head


def write_part(
    options: SinkOptions, columns: dict[str, str], place: WritePart, batches: Iterator[pa.RecordBatch]
) -> WrittenPart:
    """Write all rows; raise MessageIllegal for one that cannot be a message: nothing is published then."""
    outlet = open_outlet(options, place)
    if not outlet.is_needed():
        # All rows are taken all the same: Spark's worker cannot be used again with some left over.
        return WrittenPart(sum(batch.num_rows for batch in batches), outlet.finish())
    head = id_head(place.query, place.batch, place.part)
    row_count = 0
    with Hand(outlet.put) as hand:

        def queues(topic: str) -> list[MessageQueue]:
            # An outlet is used by one thread at a time.
            hand.settle()
            return outlet.queues(topic)

        chunks = Chunks(queues, hand.put, turn=place.batch + place.part)
        for batch in batches:
            encoder = Encoder(take(batch, columns), head, row_count)
            _add(chunks, encoder, options.topic, outlet)
            row_count += batch.num_rows
        chunks.flush()
        hand.settle()
    return WrittenPart(row_count, outlet.finish())


def _add(chunks: Chunks, encoder: Encoder, topic: str | None, outlet: Outlet) -> None:
    rows = encoder.rows
    alone = None if outlet.batches_delayed else delayed(rows)
    if alone is not None and not len(alone):
        alone = None
    for name, places in ((topic, None),) if topic is not None else by_topic(rows):
        if alone is None:
            chunks.add(encoder, name, places)
            continue
        every = np.arange(rows.count, dtype=np.int32) if places is None else places
        is_alone = np.isin(every, alone)
        chunks.add(encoder, name, every[~is_alone])
        chunks.add_alone(encoder, name, every[is_alone])
