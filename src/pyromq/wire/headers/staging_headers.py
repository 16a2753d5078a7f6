"""Staged sends, ours: 9101 opens a batch, 9102 stages a chunk, 9103 publishes, 9104 aborts, 9105 asks.

`docs/internals/staged-sends.md` tells how they belong together. A *query* writes numbered *batches*; a
batch has *parts*, and each try to write a part is an *attempt*. `home` is the name of the broker that
decides for the query.
"""

from enum import StrEnum

from pyromq.wire.header import Header, Int32, Int64, ServerName, TopicName, Word


class BatchState(StrEnum):
    """The state of a batch, as its query's home sees it; for other brokers, as they see their own share."""

    OPEN = "open"
    DECIDED = "decided"
    PUBLISHED = "published"


class PublishStep(StrEnum):
    """The steps of PUBLISH_STAGED: in this order, the first of the brokers that are not the home."""

    PREPARE = "prepare"
    PUBLISH = "publish"
    COMPLETE = "complete"


class OpenStagedBatch(Header, kw_only=True):
    """9101: begin, or join, a batch; the body proposes a layout. Other brokers only remember the home."""

    query: Word
    batch: Int64
    home: ServerName


class StageMessages(Header, kw_only=True):
    """9102: one chunk, whose messages are the body as in a SEND_BATCH_MESSAGE; nobody can read them yet."""

    query: Word
    batch: Int64
    home: ServerName
    part: Int32
    attempt: Word
    sequence: Int32
    topic: TopicName
    queue_id: Int32
    sys_flag: Int32 = 0
    born_timestamp: Int64


class PublishStaged(Header, kw_only=True):
    """9103: the parts that count, in the body. The answer comes when they are out, or after `wait_ms`."""

    query: Word
    batch: Int64
    home: ServerName
    step: PublishStep = PublishStep.PUBLISH
    wait_ms: Int32 = 10_000


class AbortStaged(Header, kw_only=True):
    """9104: the attempts in the body were in vain; without effect on a batch that is decided or published."""

    query: Word
    batch: Int64
    home: ServerName


class StagedStatus(Header, kw_only=True):
    """9105: who is the query's home, and how far it is with a batch."""

    query: Word
    batch: Int64 | None = None


class StagedAnswer(Header, kw_only=True):
    """The answer to all five. The body is the layout of an open batch, or the parts of a decided one.

    `is_first`: nobody had opened the batch before. `is_out`: all that this broker has of it can be consumed.
    """

    home: str | None = None
    last_published: Int64 | None = None
    state: BatchState | None = None
    is_first: bool = False
    is_out: bool = False
    message_count: Int64 = 0
