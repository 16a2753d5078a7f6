"""Staged sends: messages of a batch that are stored where nobody reads them, and published together.

A *query* writes numbered batches. One broker, its *home*, decides what a batch is made of; the others
follow. Parts of a batch are written by whoever has them, each attempt for itself; then one call publishes
those that count.

    writer    home of the query?  ─► open at home ─► stage, chunk after chunk, at the brokers of the queues
    publisher prepare at the others ─► publish at home: from now on decided ─► publish at the others ─►
    complete at home

Every step may be repeated, by anybody: whoever does not know how far the last one came begins at the first
step. `docs/internals/staged-sends.md` has the protocol, and what each failure leads to.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.namespaces import wrap
from pyromq.client.plans.admin import lookups as admin
from pyromq.client.plans.route_plans import publish_route
from pyromq.client.route_cache import MASTER_ID
from pyromq.client.steps import Deadline, Pause, Plan, ask, must_succeed, request
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import (
    ConnectFailed,
    IllegalOperation,
    NetworkError,
    NoRoute,
    RequestTimeout,
    StagedSendsUnsupported,
)
from pyromq.model import MessageQueue
from pyromq.wire.bodies.staging_bodies import Layout, PartChunks, StagedBody, decode_staged, encode_staged
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.staging_headers import (
    AbortStaged,
    BatchState,
    OpenStagedBatch,
    PublishStaged,
    PublishStep,
    StagedAnswer,
    StagedStatus,
    StageMessages,
)

#: How long a broker may keep a request to publish before it says how far it is.
WAIT_MS: Final = 5_000
_PAUSE_S: Final = 0.2
#: How long a step may take that brokers do not answer, or do not get on with.
TIMEOUT_MS: Final = 30_000
#: The broker has it, but not yet on all disks and replicas that a message needs: it is asked until it is so.
_UNSAFE: Final = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)
_LATER: Final = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, *_UNSAFE)


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A part that is staged, for whoever publishes the batch: small, and can be pickled."""

    query: str
    batch: int
    home: str
    part: int
    attempt: str
    #: How many chunks each broker has.
    chunks: dict[str, int]
    message_count: int


@dataclass(slots=True)
class Brokers:
    """One client's knowledge of the brokers: the addresses of masters, and the queries each is home to."""

    session: Session
    addresses: dict[str, str] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Writing:
    """One attempt at a part of a batch, as far as it is."""

    query: str
    batch: int
    part: int
    attempt: str
    home: str = ""
    layout: Layout = field(default_factory=dict)
    state: BatchState = BatchState.OPEN
    chunks: dict[str, int] = field(default_factory=dict)
    message_count: int = 0

    def finished(self) -> StagedPart:
        """Return what the publisher must know."""
        return StagedPart(
            self.query,
            self.batch,
            self.home,
            self.part,
            self.attempt,
            dict(self.chunks),
            self.message_count,
        )


# Writers


def open_batch(brokers: Brokers, writing: Writing, topics: Iterable[str], deadline: Deadline) -> Plan[None]:
    """Begin or join a batch, and learn which queues of these topics it uses: the same for all parts."""
    session = brokers.session
    proposal: Layout = {}
    for topic in topics:
        name = wrap(session.settings.namespace, topic)
        proposal[name] = yield from _queue_counts(session, name, deadline)
    writing.home = yield from _find_home(brokers, writing.query, deadline)
    header = OpenStagedBatch(query=writing.query, batch=writing.batch, home=writing.home)
    command = request(RequestCode.OPEN_STAGED_BATCH, header, encode_staged(StagedBody(layout=proposal)))
    answer = yield from _call(brokers, writing.home, command, deadline)
    opened = read_header(StagedAnswer, answer.ext)
    if opened.is_first:
        yield from _announce(brokers, header, deadline)
    brokers.homes[writing.query] = writing.home
    writing.state = opened.state or BatchState.OPEN
    writing.layout.update(decode_staged(answer.body).layout)


def queues_of(brokers: Brokers, writing: Writing, topic: str, deadline: Deadline) -> Plan[list[MessageQueue]]:
    """Return the queues of a topic that the batch may use, in an order that is the same for all parts."""
    name = wrap(brokers.session.settings.namespace, topic)
    if name not in writing.layout and writing.state is BatchState.OPEN:
        yield from open_batch(brokers, writing, [topic], deadline)
    return [
        MessageQueue(topic, broker, queue_id)
        for broker, count in sorted(writing.layout.get(name, {}).items())
        for queue_id in range(count)
    ]


def stage(
    brokers: Brokers,
    writing: Writing,
    queue: MessageQueue,
    messages: bytes,
    message_count: int,
    deadline: Deadline,
) -> Plan[None]:
    """Stage the next chunk, unless the batch is decided: then what it is made of does not change any more."""
    if writing.state is not BatchState.OPEN:
        return
    if not writing.home:
        yield from open_batch(brokers, writing, [queue.topic], deadline)
        if writing.state is not BatchState.OPEN:
            return
    broker, session = queue.broker_name, brokers.session
    header = StageMessages(
        query=writing.query,
        batch=writing.batch,
        home=writing.home,
        part=writing.part,
        attempt=writing.attempt,
        sequence=writing.chunks.get(broker, 0),
        topic=wrap(session.settings.namespace, queue.topic),
        queue_id=queue.queue_id,
        born_timestamp=session.clock.now_ms(),
    )
    command = request(RequestCode.STAGE_MESSAGES, header, messages)
    yield from _call(brokers, broker, command, deadline)
    writing.chunks[broker] = header.sequence + 1
    writing.message_count += message_count


def _queue_counts(session: Session, topic: str, deadline: Deadline) -> Plan[dict[str, int]]:
    route = yield from publish_route(session, topic, deadline)
    counts: dict[str, int] = {}
    for queue in route.write_queues:
        counts[queue.broker_name] = max(counts.get(queue.broker_name, 0), queue.queue_id + 1)
    return counts


def _announce(brokers: Brokers, header: OpenStagedBatch, deadline: Deadline) -> Plan[None]:
    """Let the other brokers remember the query's home, should it ever be away when somebody asks for it."""
    for name in sorted(brokers.addresses):
        if name != header.home:
            try:
                yield from _call(
                    brokers, name, request(RequestCode.OPEN_STAGED_BATCH, header), deadline, tries=1
                )
            except (NetworkError, StagedSendsUnsupported):
                # One that gets a chunk learns of it then.
                continue


# The home


def _find_home(brokers: Brokers, query: str, deadline: Deadline) -> Plan[str]:
    """Return the broker that decides for a query: the one that does so already, or the first of all by name.

    Raises NetworkError when nobody knows and a broker that may know cannot be asked, NoRoute when it is away.
    """
    known = brokers.homes.get(query)
    if known is not None:
        return known
    while True:
        try:
            return (yield from _ask_for_home(brokers, query, deadline))
        except (NetworkError, NoRoute):
            if deadline.left_s <= _PAUSE_S:
                raise
        # A broker that is restarted is back soon.
        yield Pause(_PAUSE_S)


def _ask_for_home(brokers: Brokers, query: str, deadline: Deadline) -> Plan[str]:
    yield from _find_brokers(brokers, deadline)
    if not brokers.addresses:
        # A broker that is started again is not known for a moment, and nobody can say what it can do.
        raise NoRoute(f"name servers {brokers.session.name_servers} know no broker now; is one up?")
    homes: set[str] = set()
    able: list[str] = []
    silent: NetworkError | None = None
    for name in sorted(brokers.addresses):
        command = request(RequestCode.STAGED_STATUS, StagedStatus(query=query))
        try:
            answer = yield from _call(brokers, name, command, deadline, tries=1)
        except StagedSendsUnsupported:
            continue
        except NetworkError as error:
            silent = error
            continue
        able.append(name)
        home = read_header(StagedAnswer, answer.ext).home
        homes.update(() if home is None else (home,))
    return _the_home(query, homes, able, silent, brokers)


def _the_home(
    query: str, homes: set[str], able: list[str], silent: NetworkError | None, brokers: Brokers
) -> str:
    if len(homes) > 1:
        raise IllegalOperation(
            ResponseCode.ILLEGAL_OPERATION,
            f"brokers disagree on who decides for query {query}: {', '.join(sorted(homes))}; begin a new one",
        )
    for home in homes:
        if home not in brokers.addresses:
            raise NoRoute(
                f"broker {home} decides for query {query}, and name servers "
                f"{brokers.session.name_servers} do not know it now; start it again"
            )
        return home
    if silent is not None:
        raise ConnectFailed(
            f"no broker that answers knows query {query}, and one does not answer: {silent}"
        ) from silent
    if not able:
        raise _unsupported("none of the brokers knows")
    return able[0]


def _find_brokers(brokers: Brokers, deadline: Deadline) -> Plan[None]:
    table = yield from admin.cluster(brokers.session, deadline)
    brokers.addresses = {
        name: broker.broker_addrs[MASTER_ID]
        for name, broker in table.broker_addr_table.items()
        if MASTER_ID in broker.broker_addrs
    }


# The publisher


def publish(brokers: Brokers, parts: Sequence[StagedPart], timeout_ms: int | None) -> Plan[None]:
    """Publish a batch that is made of these parts, or go on with it; done when all of it can be consumed.

    What is decided already holds, whatever the parts say: a batch is published once, and as a whole.
    """
    first, chunks = _one_batch(parts)
    home = first.home
    status = request(RequestCode.STAGED_STATUS, StagedStatus(query=first.query, batch=first.batch))
    answer = yield from _call(brokers, home, status, _deadline(brokers, timeout_ms))
    if read_header(StagedAnswer, answer.ext).state is BatchState.OPEN:
        for broker in _others(chunks, home):
            command = _publishing(first, PublishStep.PREPARE, chunks)
            yield from _call(brokers, broker, command, _deadline(brokers, timeout_ms))
    state, decided = yield from _publish_on(brokers, home, first, chunks, timeout_ms)
    if state is BatchState.PUBLISHED:
        return
    for broker in _others(decided, home):
        yield from _publish_on(brokers, broker, first, decided, timeout_ms)
    command = _publishing(first, PublishStep.COMPLETE, [])
    yield from _call(brokers, home, command, _deadline(brokers, timeout_ms))


def abort(brokers: Brokers, parts: Sequence[StagedPart], timeout_ms: int | None) -> Plan[None]:
    """Let attempts go that will not be published; without effect when the batch is decided or published.

    The home is asked first: only it knows whether a publish that seemed to fail was decided after all.
    """
    first, chunks = _one_batch(parts)
    header = AbortStaged(query=first.query, batch=first.batch, home=first.home)
    command = request(RequestCode.ABORT_STAGED, header, encode_staged(StagedBody(parts=chunks)))
    answer = yield from _call(brokers, first.home, command, _deadline(brokers, timeout_ms))
    if read_header(StagedAnswer, answer.ext).state in (BatchState.DECIDED, BatchState.PUBLISHED):
        return
    for broker in _others(chunks, first.home):
        yield from _call(brokers, broker, command, _deadline(brokers, timeout_ms))


def _publish_on(
    brokers: Brokers, broker: str, first: StagedPart, chunks: list[PartChunks], timeout_ms: int | None
) -> Plan[tuple[BatchState, list[PartChunks]]]:
    """Publish what one broker has, however long it takes as long as it goes on; return what was decided."""
    seen, deadline = -1, _deadline(brokers, timeout_ms)
    while True:
        answer = yield from _call(brokers, broker, _publishing(first, PublishStep.PUBLISH, chunks), deadline)
        progress = read_header(StagedAnswer, answer.ext)
        if progress.state is BatchState.PUBLISHED or progress.is_out:
            return progress.state or BatchState.PUBLISHED, decode_staged(answer.body).parts
        if progress.message_count > seen:
            seen, deadline = progress.message_count, _deadline(brokers, timeout_ms)
        elif deadline.has_passed:
            raise RequestTimeout(
                f"batch {first.batch} of query {first.query} is decided, but {broker} does not get "
                f"further than {seen} messages; it goes on by itself, and a repeated publish waits for it"
            )


def _publishing(first: StagedPart, step: PublishStep, chunks: list[PartChunks]) -> Command:
    header = PublishStaged(query=first.query, batch=first.batch, home=first.home, step=step, wait_ms=WAIT_MS)
    return request(RequestCode.PUBLISH_STAGED, header, encode_staged(StagedBody(parts=chunks)))


def _one_batch(parts: Sequence[StagedPart]) -> tuple[StagedPart, list[PartChunks]]:
    if len({(part.query, part.batch, part.home) for part in parts}) != 1:
        raise ValueError("parts of one batch are published or aborted together, at least one")
    return parts[0], [PartChunks(part=part.part, attempt=part.attempt, chunks=part.chunks) for part in parts]


def _others(chunks: list[PartChunks], home: str) -> list[str]:
    """Return the brokers that have something of a batch, without its home."""
    return sorted({broker for part in chunks for broker, count in part.chunks.items() if count} - {home})


# Calling a broker by its name


def _deadline(brokers: Brokers, timeout_ms: int | None) -> Deadline:
    return brokers.session.deadline(timeout_ms, TIMEOUT_MS)


def _call(
    brokers: Brokers,
    broker: str,
    command: Command,
    deadline: Deadline,
    *,
    tries: int | None = None,
) -> Plan[Command]:
    """Ask a broker until it answers, for all of this may be repeated; it may be restarting meanwhile."""
    call_ms = WAIT_MS + brokers.session.settings.mq_client_api_timeout
    while True:
        try:
            address = yield from _address(brokers, broker, deadline)
            answer = yield from ask(address, command, deadline.part_s(call_ms))
        except (NetworkError, NoRoute):
            tries = None if tries is None else tries - 1
            if deadline.left_s <= _PAUSE_S or tries == 0:
                raise
            # It may come back at another address.
            brokers.addresses.pop(broker, None)
        else:
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise _unsupported(f"broker {broker} ({address}) does not know")
            if answer.code not in _LATER or deadline.left_s <= _PAUSE_S:
                return _safe(answer, broker)
            if answer.code == ResponseCode.SERVICE_NOT_AVAILABLE:
                # It may be a slave by now, and another the master.
                brokers.addresses.pop(broker, None)
        yield Pause(_PAUSE_S)


def _safe(answer: Command, broker: str) -> Command:
    if answer.code in _UNSAFE:
        raise RequestTimeout(
            f"broker {broker} has what was staged, but not on all disks and replicas that a message needs "
            f"({ResponseCode(answer.code).name}); are its slaves up, and its disks quick enough? Nothing is "
            "published, and the same may be asked again"
        )
    return must_succeed(answer)


def _address(brokers: Brokers, broker: str, deadline: Deadline) -> Plan[str]:
    if broker not in brokers.addresses:
        yield from _find_brokers(brokers, deadline)
    if broker not in brokers.addresses:
        raise NoRoute(
            f"broker {broker!r} has no master at name servers {brokers.session.name_servers} now; is it up?"
        )
    return brokers.addresses[broker]


def _unsupported(who: str) -> StagedSendsUnsupported:
    return StagedSendsUnsupported(
        f"{who} staged sends, which are PyroMQ's own; write with delivery=at-least-once to Apache's brokers"
    )
