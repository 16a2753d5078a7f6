"""Open, stage, publish, abort, ask: the requests of staged sends. `kinds/staging/` has what they mean."""

from collections.abc import Awaitable, Sequence

import msgspec

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.kinds.staging.publishing import Publisher
from pyromq.broker.kinds.staging.records import ChunkNote
from pyromq.broker.kinds.staging.staging import Staging
from pyromq.broker.topics.intake import Admission, check_queue
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import COMPRESSION_MASK, ResponseCode, SysFlag
from pyromq.config.settings import BrokerSettings
from pyromq.errors import MessageIllegal, TopicNotFound
from pyromq.net.routes import Answer, Request
from pyromq.system_names import AUTO_CREATE
from pyromq.wire.bodies.staging_bodies import PartChunks, StagedBody, decode_staged, encode_staged
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.headers.staging_headers import (
    AbortStaged,
    OpenStagedBatch,
    PublishStaged,
    PublishStep,
    StagedAnswer,
    StagedStatus,
    StageMessages,
)

#: Names of queries, brokers and attempts stand in properties, without their separators.
NAME_CHARACTERS_MAX = 255
_SYS_FLAGS = int(SysFlag.COMPRESSED) | COMPRESSION_MASK
WAIT_MS_MAX = 60_000


class StagingHandlers:
    """Answers the five codes of staged sends."""

    def __init__(
        self,
        *,
        staging: Staging,
        publisher: Publisher,
        admission: Admission,
        topics: TopicTable,
        durability: Durability,
        settings: BrokerSettings,
    ) -> None:
        self._staging = staging
        self._publisher = publisher
        self._admission = admission
        self._topics = topics
        self._durability = durability
        self._settings = settings

    async def open(self, request: Request[OpenStagedBatch]) -> Answer:
        """Begin a batch, or join it."""
        header = request.header
        _check_names(header.query, header.home, batch=header.batch)
        layout = decode_staged(request.body).layout
        opened = self._staging.open(header.query, header.batch, header.home, layout, request.caller)
        return _answer(await opened)

    def stage(self, request: Request[StageMessages]) -> Answer | Awaitable[Answer]:
        """Store a chunk; one that is here already is not stored again."""
        header = request.header
        _check_names(header.query, header.home, header.attempt, batch=header.batch)
        if header.part < 0 or header.sequence < 0 or header.queue_id < 0 or header.sys_flag & ~_SYS_FLAGS:
            raise _illegal("part, sequence and queueId are not negative, and sysFlag says at most compressed")
        note = _note(header)
        staged = self._staging.check_stageable(note, request.caller)
        if staged is not None:
            # Syncs end between records: the disk has all of one of which it has more than the beginning.
            return self._confirm(staged.position + 1)
        config = self._topic(header.topic)
        check_queue(config, header.queue_id, request.link.peer)
        measured = self._publisher.measure(header.topic, header.queue_id, request.body)
        end = self._staging.stage(
            msgspec.structs.replace(note, **measured._asdict()),
            request.body,
            born_at_ms=header.born_timestamp,
            born_host=request.link.peer_host_bytes,
            caller=request.caller,
        )
        if not self._topics.has_saved(header.topic):
            return self._answer_when_saved(end)
        return self._confirm(end)

    async def publish(self, request: Request[PublishStaged]) -> Answer:
        """Take a step towards a published batch."""
        header, staging = request.header, self._staging
        query, batch, home = header.query, header.batch, header.home
        _check_names(query, home, batch=batch)
        parts = decode_staged(request.body).parts
        _check_parts(parts)
        if header.step is PublishStep.COMPLETE:
            return _answer(await staging.complete(query, batch, home, request.caller))
        if header.step is PublishStep.PREPARE:
            return _answer(await staging.prepare(query, batch, home, parts, request.caller))
        wait_s = min(max(header.wait_ms, 0), WAIT_MS_MAX) / 1_000
        return _answer(await staging.publish(query, batch, home, parts, wait_s, request.caller))

    async def abort(self, request: Request[AbortStaged]) -> Answer:
        """Forget attempts that will not be published."""
        header = request.header
        _check_names(header.query, header.home, batch=header.batch)
        parts = decode_staged(request.body).parts
        _check_parts(parts)
        attempts = [(part.part, part.attempt) for part in parts]
        aborted = self._staging.abort(header.query, header.batch, header.home, attempts, request.caller)
        return _answer(await aborted)

    async def status(self, request: Request[StagedStatus]) -> Answer:
        """Say how far a query is."""
        header = request.header
        _check_names(header.query, batch=header.batch or 0)
        return _answer(await self._staging.status(header.query, header.batch, request.caller))

    def _topic(self, topic: str) -> TopicConfig:
        """Return a topic that messages may be sent to, created as a send would."""
        config = self._admission.check_topic(topic) or self._topics.inherit(
            topic, AUTO_CREATE, queue_count=self._settings.default_topic_queue_nums
        )
        if config is None:
            raise TopicNotFound(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{topic}] not exist, create it before messages are staged",
            )
        return config

    async def _answer_when_saved(self, end: int) -> Answer:
        await self._topics.save()
        confirmed = self._confirm(end)
        return confirmed if isinstance(confirmed, Answer) else await confirmed

    def _confirm(self, end: int) -> Answer | Awaitable[Answer]:
        return self._durability.acknowledge(end, Answer(ext={}))


def _note(header: StageMessages) -> ChunkNote:
    """Return what a request says of its chunk; what is in it is not known yet."""
    return ChunkNote(
        query=header.query,
        batch=header.batch,
        home=header.home,
        part=header.part,
        attempt=header.attempt,
        sequence=header.sequence,
        topic=header.topic,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        message_count=0,
        record_bytes=0,
        is_plain=False,
    )


def _answer(answer: tuple[StagedAnswer, StagedBody]) -> Answer:
    header, body = answer
    return Answer(header=header, body=encode_staged(body))


def _check_names(*names: str, batch: int = 0) -> None:
    for name in names:
        if not (name.isprintable() and 0 < len(name) <= NAME_CHARACTERS_MAX):
            raise _illegal(
                f"queries, brokers and attempts have names of 1 to {NAME_CHARACTERS_MAX} printable letters, "
                f"not {name[:80]!r}"
            )
    if batch < 0:
        raise _illegal(f"batches are numbered from 0, not {batch}")


def _check_parts(parts: Sequence[PartChunks]) -> None:
    for part in parts:
        _check_names(part.attempt, *part.chunks)
    if len({part.part for part in parts}) < len(parts):
        raise _illegal("a part is named twice; one attempt counts for each")


def _illegal(remark: str) -> MessageIllegal:
    return MessageIllegal(ResponseCode.MESSAGE_ILLEGAL, remark)
