"""Fixed work for the kernel, whose instructions `tools/kernel_instructions.py` counts.

A workload is a function that prepares and returns the work, which returns how many messages it handled; only
the work is counted. To add one, write it under `@workload("name")` and record it with
`python tools/kernel_instructions.py --record`. It must do the same in every run: no clock, no random numbers.
"""

import ctypes
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyromq._kernel.requests.grpc_acks import GrpcAcks
    from pyromq._kernel.requests.grpc_signatures import GrpcSignatures
    from pyromq._kernel.requests.sends import Sends
    from pyromq.broker.topics.intake import PlainDiversion
    from pyromq.net.inlet import Inlet

Work = Callable[[], int]
WORKLOADS: dict[str, Callable[[], Work]] = {}

MESSAGES = 200
BODY = bytes(range(256)) * 4
POSITION = 1 << 30
HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])


def workload(name: str) -> Callable[[Callable[[], Work]], Callable[[], Work]]:
    """Enter a workload into the table."""

    def enter(prepare: Callable[[], Work]) -> Callable[[], Work]:
        WORKLOADS[name] = prepare
        return prepare

    return enter


def _inlet(received: bytes) -> "Inlet":
    """Return a connection that received bytes, in a turn that nothing ends."""
    from pyromq._kernel.codec.inlets import Inlet, TurnInlets

    turn = TurnInlets()
    turn.is_planned = True
    inlet = Inlet(turn, lambda: 0.0, 1 << 30)
    inlet.peer_host_bytes = HOST
    inlet.feed(received)
    return inlet


def _send_kernel() -> "Sends":
    """Return the kernel's part of a broker's sends."""
    from pyromq.broker.requests.send_shortcut import make_sends

    kernel = make_sends(
        store_host=HOST,
        cluster="DefaultCluster",
        common_ext={"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"},
        diverting=("DELAY", "TRAN_MSG", "TIMER_DELAY_MS"),
        wait_matters=False,
        has_index=True,
        body_bytes_max=4 << 20,
    )
    assert kernel is not None
    return kernel


def _plan(kernel: "Sends", inlet: "Inlet") -> None:
    """Plan what an inlet received."""
    kernel.plan(
        [inlet],
        0,
        under_way_max=1,
        now_ms=1_700_000_000_000,
        log_end=POSITION,
        log_room=1 << 30,
        index_room=1 << 20,
    )


def _sends_of(batch: int, *, more: str = "", way: "PlainDiversion | None" = None) -> Work:
    """Return the work of taking received sends to a log and two queues, the write itself left out.

    They have more properties, and those of a message that waits elsewhere first go this way.
    """
    from pyromq._kernel.storage.tails import IndexTail, QueueTail
    from pyromq.bench.frames import Queue, send_template
    from pyromq.broker.requests.send_shortcut import kernel_diversion

    kernel = _send_kernel()
    if way is not None:
        kernel.learn_topic(b"orders", 0, 2)
        diversion = kernel_diversion(way, "broker-a")
        diversion.learn(0, QueueTail())
        kernel.divert(diversion)
    index, queues = IndexTail(5_000_000, 20_000_000), [QueueTail(), QueueTail()]
    for queue_id, queue in enumerate(queues):
        kernel.learn(b"orders", queue_id, queue, 0)
    frames = [
        send_template(
            Queue("", "broker-a", "orders", queue_id),
            size=len(BODY),
            batch=batch,
            prefix="7F00000100010CA5D2F8",
            properties=f"TAGS\x01paid\x02KEYS\x01key-{queue_id}{more}",
        ).frame
        for queue_id in range(len(queues))
    ]
    received = b"".join(frames) * (MESSAGES // batch // len(frames))

    def work() -> int:
        inlet = _inlet(received)
        _plan(kernel, inlet)
        messages = kernel.message_count
        kernel.apply(index, 1 << 20)
        kernel.hand_out()
        assert not inlet.pending_bytes, f"stopped at {inlet.start}"
        return messages

    return work


@workload("send")
def send() -> Work:
    """Return the work of single sends of 1 KiB."""
    return _sends_of(batch=1)


@workload("send in batches of 20")
def send_batches() -> Work:
    """Return the work of sends of 20 messages of 1 KiB each."""
    return _sends_of(batch=20)


@workload("send with 40 properties")
def send_properties() -> Work:
    """Return the work of single sends of 1 KiB with so many properties that Java's map grows."""
    return _sends_of(batch=1, more="".join(f"\x02property-{number}\x01{number}" for number in range(36)))


@workload("send delayed")
def send_delayed() -> Work:
    """Return the work of sends of 1 KiB with a delay level."""
    from pyromq.broker.topics.intake import PlainDiversion

    way = PlainDiversion(name="DELAY", topic="SCHEDULE_TOPIC_XXXX", delays_ms=(1000,))
    return _sends_of(batch=1, more="\x02DELAY\x011", way=way)


@workload("send timed")
def send_timed() -> Work:
    """Return the work of sends of 1 KiB that wait for a time of their own."""
    from pyromq.broker.kinds.timers.timed import plain_timer_diversions
    from pyromq.config.settings import StoreSettings

    ways = plain_timer_diversions(StoreSettings())
    [way] = [one for one in ways if one.name == "TIMER_DELAY_MS"]
    return _sends_of(batch=1, more="\x02TIMER_DELAY_MS\x0160000", way=way)


@workload("send halves")
def send_halves() -> Work:
    """Return the work of sends of 1 KiB that are halves of transactions."""
    from pyromq.broker.topics.intake import PlainDiversion

    way = PlainDiversion(name="TRAN_MSG", topic="RMQ_SYS_TRANS_HALF_TOPIC", word="true")
    return _sends_of(batch=1, more="\x02TRAN_MSG\x01true\x02PGROUP\x01payers", way=way)


@workload("refuse")
def refuse() -> Work:
    """Return the work of refusing sends of 1 KiB."""
    from pyromq._kernel.requests.refusals import refuse_sends
    from pyromq.bench.frames import Queue, send_template
    from pyromq.broker.requests.busy import refusal_parts

    to = Queue("", "broker-a", "orders", 0)
    frame = send_template(to, size=len(BODY), batch=1, prefix="7F00000100010CA5D2F8").frame
    received = bytes(frame) * MESSAGES
    before, after, binary = refusal_parts("[TIMEOUT_CLEAN_QUEUE]broker busy, period in queue: 201ms")

    def work() -> int:
        end, _, count = refuse_sends(
            received,
            0,
            json_before=before,
            json_after=after,
            binary=binary,
            answer_bytes_max=1 << 30,
        )
        assert end == len(received), f"stopped at {end}"
        return count

    return work


class _Pulled:
    """A queue of 1 KiB messages in a log that another queue shares, and a kernel that knows its pulls."""

    def __init__(self) -> None:
        from types import SimpleNamespace

        from pyromq._kernel.storage.tails import QueueTail
        from pyromq.broker.delivery.pull_shortcut import make_pulls
        from pyromq.config.settings import StoreSettings
        from pyromq.store.consumequeue import ENTRY
        from pyromq.wire.record import Record, encode_record

        log, entries = b"", b""
        for number in range(2 * MESSAGES):
            properties = f"UNIQ_KEY\x017F00000100010CA5D2F8{number:012X}\x02TAGS\x01paid"
            record = encode_record(
                Record(topic="orders", body=BODY, properties=properties, position=len(log))
            )
            if number % 2 == 0:
                entries += ENTRY.pack(len(log), len(record), 97)
            log += record

        class Queue(QueueTail):
            min_offset = 0

            def read(self, offset: int, count: int) -> bytes:
                return entries[ENTRY.size * offset : ENTRY.size * (offset + count)]

        self.queue, self.kernel = Queue(), make_pulls(StoreSettings())
        self.queue.end = MESSAGES
        segment = SimpleNamespace(base=0, end=len(log), map=log)
        self.log: Any = SimpleNamespace(
            end=len(log), written_from=0, segments=[segment], segment_at=lambda _: segment
        )
        #: Where the log is, and what time it is, for calls of the kernel.
        self.at: dict[str, int] = {"readable": 1 << 62, "disk_position": 0, "now_ms": 0}
        self.room: dict[str, int] = {"hold_room": 1000, "hold_ms": -1, "under_way_max": 1000}

    def frame(self, offset: int, serializer: int = 0, flags: int = 6) -> bytes:
        """Return a pull of 20 messages from an offset, which the kernel knows from now on."""
        from pyromq._kernel.requests.reading import PullPlan
        from pyromq.broker.delivery.pull_shortcut import _key_of
        from pyromq.codes import RequestCode, Serializer
        from pyromq.wire.command import Command, encode
        from pyromq.wire.header import write_header
        from pyromq.wire.headers.pull_headers import PullMessage

        header = PullMessage(
            consumer_group="group",
            topic="orders",
            queue_id=0,
            queue_offset=offset,
            max_msg_nums=20,
            sys_flag=flags,
            commit_offset=offset,
            suspend_timeout_millis=15_000,
            subscription="paid",
            sub_version=0,
            expression_type="TAG",
        )
        key = _key_of(header)
        assert key is not None
        plan = PullPlan(
            self.queue,
            header=header,
            codes=frozenset({97}),
            broker_ids=(0, 0),
            offsets={0: 0},
            name="orders@group",
            reached=array("q", [-1]),
            revision=array("q", [0]),
        )
        self.kernel.learn(key, plan)
        command = Command(
            RequestCode.PULL_MESSAGE,
            opaque=offset,
            ext=write_header(header),
            serializer=Serializer(serializer),
        )
        return bytes(encode(command))


def _pulls_of(serializer: int, flags: int) -> Work:
    stage = _Pulled()
    received = b"".join(stage.frame(offset, serializer, flags) for offset in range(0, MESSAGES, 20))

    def work() -> int:
        inlet = _inlet(received)
        stage.kernel.answer([inlet], stage.log, **stage.at, **stage.room)  # type: ignore[arg-type]
        assert not inlet.pending_bytes, f"stopped at {inlet.start}"
        return MESSAGES

    return work


@workload("pull")
def pull() -> Work:
    """Return the work of pulls of 20 messages of 1 KiB each, from a log that another queue shares."""
    return _pulls_of(0, 6)


@workload("pull, binary header")
def binary_pull() -> Work:
    """Return the work of the same pulls with binary headers."""
    return _pulls_of(1, 6)


@workload("pull with a commit")
def committing_pull() -> Work:
    """Return the work of the same pulls when each brings an offset to commit, as push consumers' do."""
    return _pulls_of(0, 7)


@workload("held pull")
def held_pull() -> Work:
    """Return the work of pulls that are held one each by their connections, and woken by one message."""
    stage = _Pulled()
    received = stage.frame(MESSAGES - 1)
    count = MESSAGES // 2

    def work() -> int:
        stage.queue.end = MESSAGES - 1
        inlets = [_inlet(received) for _ in range(count)]
        stage.kernel.answer(inlets, stage.log, **stage.at, **stage.room)  # type: ignore[arg-type]
        assert stage.kernel.holds.count == count, f"{stage.kernel.holds.count} are held"
        stage.queue.end = MESSAGES
        stage.kernel.holds.grew([(stage.queue, MESSAGES - 1)])  # type: ignore[list-item]
        stage.kernel.holds.wake(stage.kernel.reader, stage.log, **stage.at)
        assert stage.kernel.holds.count == 0, f"{stage.kernel.holds.count} are still held"
        return count

    return work


@workload("commit")
def commit() -> Work:
    """Return the work of oneway commits of one group in two queues."""
    from pyromq.broker.groups.offset_shortcut import make_offsets
    from pyromq.codes import CommandFlag, RequestCode
    from pyromq.wire.command import Command, encode

    kernel, kept, received = make_offsets(), {0: 0, 1: 0}, b""
    for number in range(MESSAGES):
        fields = {"consumerGroup": "group", "topic": "orders", "queueId": str(number % 2)}
        ext = fields | {"commitOffset": str(1000 + number)}
        code, flag = RequestCode.UPDATE_CONSUMER_OFFSET, CommandFlag.ONEWAY
        received += encode(Command(code, opaque=number, flag=flag, ext=ext))
    for queue_id in kept:
        key = b"group\0orders\0%d\0" % queue_id
        kernel.learn(key, kept, queue_id, "orders@group", takes_commits=True)

    def work() -> int:
        inlet = _inlet(received)
        kernel.answer([inlet])
        assert not inlet.pending_bytes, f"stopped at {inlet.start}"
        return MESSAGES

    return work


@workload("acknowledge a popped message")
def acknowledge() -> Work:
    """Return the work of acknowledgements of one group in one queue, popped before."""
    from pyromq.broker.requests.ack_shortcut import make_acks
    from pyromq.codes import RequestCode
    from pyromq.wire.command import Command, encode

    kernel, received, popped_at_ms = make_acks(), b"", 1_700_000_000_000
    for number in range(MESSAGES):
        handle = f"0 {popped_at_ms} 60000 3 0 broker-a 0 {number}"
        ext = {"consumerGroup": "group", "topic": "orders", "queueId": "0"}
        ext |= {"extraInfo": handle, "offset": str(number)}
        received += encode(Command(RequestCode.ACK_MESSAGE, opaque=number, ext=ext))
    queue, ending = _in_flight()
    kernel.learn(b"group\0orders\x000\0", ending)

    def work() -> int:
        inlet = _inlet(received)
        queue.add(range(MESSAGES), popped_at_ms, popped_at_ms + 60_000)
        assert kernel.answer([inlet]) == MESSAGES
        return MESSAGES

    return work


def _in_flight() -> "tuple[Any, Any]":
    """Return a queue without messages in flight, and what ends them."""
    from pyromq._kernel.storage.in_flight import DeliveryEnding, InFlight

    queue = InFlight()
    return queue, DeliveryEnding(queue, lambda: setattr(queue, "noted", []))


def _grpc_acks(call: "_Call") -> "GrpcAcks":
    """Return the kernel's part of a broker's acknowledgements, which has seen its topics."""
    from pyromq._kernel.requests.grpc_acks import GrpcAcks

    around = SimpleNamespace(revision=0, turn_number=0, max_invisible_time_mills=43_200_000)
    kernel = GrpcAcks(
        broker=b"broker-a",
        topics=around,  # type: ignore[arg-type]
        changes=around,  # type: ignore[arg-type]
        turn_of=lambda: 0,
        left=lambda *_: None,
        left_change=lambda *_: None,
        now_ms=lambda: 1_700_000_001_000,
        settings=around,  # type: ignore[arg-type]
    )
    kernel.ack(call, b"")  # type: ignore[arg-type]
    return kernel


@workload("change by gRPC")
def change_by_grpc() -> Work:
    """Return the work of giving single messages another invisible time."""
    from pyromq.wire.grpc import grpc_messages as pb

    popped_at_ms, requests = 1_700_000_000_000, []
    for number in range(MESSAGES):
        request = pb.ChangeInvisibleDurationRequest(
            group=pb.Resource(name="group"),
            topic=pb.Resource(name="orders"),
            receipt_handle=f"0 {popped_at_ms} 60000 3 0 broker-a 0 {number} {1100 * number + 1}",
            message_id=f"{number:032X}",
        )
        request.invisible_duration.seconds = 30
        requests.append(request.SerializeToString())
    call, (queue, ending) = _Call(), _in_flight()
    kernel = _grpc_acks(call)
    kernel.learn_change(b"group", b"orders", 0, 0, ending, lambda *_: None)

    def work() -> int:
        queue.clear()
        queue.add(range(MESSAGES), popped_at_ms, popped_at_ms + 60_000)
        for request in requests:
            assert kernel.change(call, request) is not None  # type: ignore[arg-type]
        return MESSAGES

    return work


@workload("acknowledge by gRPC")
def acknowledge_by_grpc() -> Work:
    """Return the work of acknowledgements of single messages: from a request's bytes to a response's."""
    from pyromq.wire.grpc import grpc_messages as pb

    popped_at_ms, requests = 1_700_000_000_000, []
    for number in range(MESSAGES):
        request = pb.AckMessageRequest(group=pb.Resource(name="group"), topic=pb.Resource(name="orders"))
        handle = f"0 {popped_at_ms} 60000 3 0 broker-a 0 {number} {1100 * number}"
        request.entries.add(message_id=f"{number:032X}", receipt_handle=handle)
        requests.append(request.SerializeToString())
    call, (queue, ending) = _Call(), _in_flight()
    kernel = _grpc_acks(call)
    kernel.learn(b"group", b"orders", 0, 0, ending)

    def work() -> int:
        queue.add(range(MESSAGES), popped_at_ms, popped_at_ms + 60_000)
        for request in requests:
            assert kernel.ack(call, request) is not None  # type: ignore[arg-type]
        return MESSAGES

    return work


@workload("runs of queue entries")
def runs_of_entries() -> Work:
    """Return the work of finding the records that a read may copy in one piece, 32 at a time."""
    from pyromq._kernel.storage.entry_runs import run_of
    from pyromq.store.consumequeue import ENTRY

    entries = b"".join(ENTRY.pack(POSITION + 1100 * number, 1100, 0) for number in range(32))

    def work() -> int:
        for _ in range(MESSAGES // 32):
            assert run_of(entries, POSITION << 1, 32, 1 << 20)[0] == 32
        return MESSAGES // 32 * 32

    return work


@workload("show popped messages by gRPC")
def show_by_grpc() -> Work:
    """Return the work of messages of 1 KiB for a stream, popped 32 at once."""
    from pyromq._kernel.requests.shown import ShownRecords
    from pyromq.wire.grpc.reserved_names import RESERVED_NAMES
    from pyromq.wire.grpc.shown_messages import shown_topic
    from pyromq.wire.record import Record, encode_record

    kernel, count = ShownRecords(RESERVED_NAMES), 32
    records = [
        encode_record(Record("orders", bytes(1024), properties=f"TAGS\x01A\x02UNIQ_KEY\x01{number:032X}"))
        for number in range(count)
    ]
    body, numbers, sizes = b"".join(records), list(range(count)), [len(one) for one in records]
    topic, head, attempts = shown_topic("orders"), b"0 1700000000000 60000 3 0 broker-a 0 ", [1] * count

    def work() -> int:
        for _ in range(MESSAGES // count):
            _, written = kernel.write(body, 0, 0, sizes, numbers, numbers, attempts, head, topic, 1 << 20)
            assert written == count
        return MESSAGES // count * count

    return work


class _Call:
    """As much of a gRPC call as the kernel looks at."""

    def __init__(self) -> None:
        self.metadata = {"x-mq-client-id": "bench@1"}
        self.peer = "127.0.0.1:50000"
        self.peer_host_bytes = HOST
        self.answers = 0

    def answer(self, _response: bytes) -> None:
        self.answers += 1


@workload("send by gRPC")
def send_by_grpc() -> Work:
    """Return the work of plain sends of an SDK: from the request's bytes to those of the response."""
    return _grpc_sends_of(_Call(), None)


@workload("send by gRPC, signed")
def send_by_grpc_signed() -> Work:
    """Return the work of the same sends with an account, each with its signature."""
    import hashlib
    import hmac

    from pyromq._kernel.requests.grpc_signatures import GrpcSignatures
    from pyromq.broker.access.needs import to_publish
    from pyromq.broker.grpc.grpc_access import words_of
    from pyromq.net.routes import Caller
    from pyromq.wire.signature import signing_key

    call, signed, secret = _Call(), "20261119T120000Z", b"12345678"
    call.metadata |= {
        "x-mq-date-time": signed,
        "authorization": "MQv2-HMAC-SHA1 Credential=rocketmq//Rocketmq, SignedHeaders=x-mq-date-time, "
        f"Signature={hmac.new(secret, signed.encode(), hashlib.sha1).hexdigest()}",
    }
    rules, need = object(), words_of(to_publish("orders"))
    assert need is not None
    signatures = GrpcSignatures(lambda: rules)
    signatures.learn(rules, b"rocketmq", signing_key(secret), need, Caller("rocketmq", is_trusted=False))
    return _grpc_sends_of(call, signatures)


def _grpc_sends_of(call: "_Call", signatures: "GrpcSignatures | None") -> Work:
    """Return the work of plain sends of one client."""
    from pyromq._kernel.requests.grpc_sends import GrpcSends
    from pyromq._kernel.storage.tails import IndexTail, QueueTail
    from pyromq.net.turn import Turn
    from pyromq.wire.grpc import grpc_messages as pb

    turn, around = Turn(monotonic=lambda: 0.0), SimpleNamespace(revision=0)
    turn.is_planned = True
    kernel, index = _send_kernel(), IndexTail(5_000_000, 20_000_000)
    for queue_id in range(2):
        kernel.learn(b"orders", queue_id, QueueTail(), 0)
    sends = GrpcSends(
        turn=turn,
        monotonic=lambda: 0.0,
        now_ms=lambda: 1_700_000_000_000,
        topics=around,  # type: ignore[arg-type]
        live=around,  # type: ignore[arg-type]
        left=lambda *_: None,
        signatures=signatures,
        do=lambda _call, _data: None,
        refuse=lambda _call, _data, _frame: None,
        reserved=frozenset(),
    )
    sends.limit(
        body_bytes_max=4 << 20, property_bytes_max=16_384, group_bytes_max=64, delay_ms_max=86_400_000
    )
    sends.learn(b"orders", 2, (1,), 0)
    properties = pb.SystemProperties(
        message_id="01A1B2C3D4E5F60001A1B2C3D4E5F60708", message_type=1, body_encoding=1, born_host="bench"
    )
    message = pb.Message(topic=pb.Resource(name="orders"), body=BODY, system_properties=properties)
    request = pb.SendMessageRequest(messages=[message]).SerializeToString()

    def work() -> int:
        for _ in range(MESSAGES):
            assert sends.take(call, request)
        (inlet,) = turn.noted
        _plan(kernel, inlet)
        kernel.apply(index, 1 << 20)
        kernel.hand_out()
        assert call.answers >= MESSAGES, f"{call.answers} were answered"
        return MESSAGES

    return work


@workload("call of gRPC")
def call_of_grpc() -> Work:
    """Return the work of unary calls in a session of HTTP/2: headers and message in, answer and status out.

    The headers are those of RocketMQ's Go SDK, each an entry of HPACK's table as its encoder makes them. Only
    our part is counted: what nghttp2 needs is nobody's here to change.
    """
    import hpack

    from pyromq._kernel.http2.sessions import GrpcSession
    from pyromq.net.http2.session_terms import ENDED, PREFACE, SessionLimits

    def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload

    encoder, message = hpack.Encoder(), b"\0" + len(BODY).to_bytes(4, "big") + BODY
    session = GrpcSession(SessionLimits())
    session.receive(PREFACE + frame(4, 0, 0, b"") + frame(8, 0, 0, (1 << 30).to_bytes(4, "big")))
    received = []
    for number in range(MESSAGES):
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/apache.rocketmq.v2.MessagingService/SendMessage"),
            (":authority", "127.0.0.1:8081"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("grpc-timeout", f"{9_999_000 + number}u"),
            ("x-mq-language", "GO"),
            ("x-mq-protocol", "v2"),
            ("x-mq-client-version", "5.1.2"),
            ("x-mq-client-id", "bench@1"),
            ("x-mq-request-id", f"7f000001-0000-4000-8000-{number:012x}"),
            ("x-mq-date-time", "20261119T120000Z"),
        ]
        stream = 2 * number + 1
        received.append(frame(1, 4, stream, encoder.encode(headers)) + frame(0, 1, stream, message))

    def work() -> int:
        answers = 0
        for event in session.receive(b"".join(received)):
            if event[0] == ENDED:
                session.answer(event[1], BODY[:100])
                answers += 1
        assert session.take_output(1 << 30)
        assert (answers, session.stream_count) == (MESSAGES, 0), f"{answers} were answered"
        return answers

    return work


def _waiting(topic: str) -> tuple[list[int], object]:
    """Return the positions of messages of 1 KiB that wait in a topic, and a log that has nothing else."""
    from types import SimpleNamespace

    from pyromq.wire.record import Record, encode_record

    log, positions = b"", []
    for number in range(MESSAGES):
        properties = (
            f"REAL_TOPIC\x01orders\x02PGROUP\x01group\x02TAGS\x01paid\x02REAL_QID\x01{number % 2}"
            f"\x02UNIQ_KEY\x017F00000100010CA5D2F8{number:012X}\x02KEYS\x01key-{number}\x02DELAY\x013"
        )
        record = Record(topic=topic, body=BODY, properties=properties, position=len(log), queue_offset=number)
        positions.append(len(log))
        log += encode_record(record)
    segment = SimpleNamespace(base=0, end=len(log), map=log)
    return positions, SimpleNamespace(end=len(log), written_from=0, segment_at=lambda _: segment)


#: The account that signs, in some workloads.
ACCOUNT, SECRET = "web-shop", "web-shops-secret"


def _guard(
    kernel: "Sends", log: Any, code: int, place: bytes, fields: tuple[bytes, ...], *learnt: bytes
) -> None:
    """Have a broker's sends look at signatures, and let requests of an account pass."""
    from pyromq._kernel.requests.signatures import Signatures
    from pyromq.wire.signature import signing_key

    signatures = Signatures({code: (fields, place)}, log)
    assert signatures.learn(ACCOUNT.encode(), signing_key(SECRET.encode()), code, learnt)
    kernel.guard(signatures)


def _sign(command: Any) -> None:
    from pyromq.wire.signature import signer

    signer(ACCOUNT, SECRET)(command)


@workload("end")
def end() -> Work:
    """Return the work of committing transactions of messages of 1 KiB, the write itself left out."""
    return _ends_of(is_signed=False)


@workload("end, signed")
def end_signed() -> Work:
    """Return the same of an account."""
    return _ends_of(is_signed=True)


def _ends_of(*, is_signed: bool) -> Work:
    from pyromq._kernel.storage.tails import IndexTail, QueueTail
    from pyromq.broker.requests.end_shortcut import make_ends
    from pyromq.codes import CommandFlag, RequestCode
    from pyromq.wire.command import Command, encode

    positions, log = _waiting("RMQ_SYS_TRANS_HALF_TOPIC")
    kernel = _send_kernel()
    decided = bytearray(MESSAGES // 8 + 1)
    ends = make_ends(lambda: (log, decided, 0, {}), store_host=HOST, body_bytes_max=4 << 20)  # type: ignore[arg-type, return-value]
    kernel.take_in(ends)
    index, received = IndexTail(5_000_000, 20_000_000), b""
    for topic in (b"orders", b"RMQ_SYS_TRANS_OP_HALF_TOPIC"):
        for queue_id in range(2):
            ends.learn(topic, queue_id, QueueTail())
    for number, position in enumerate(positions):
        ext = {
            "producerGroup": "group",
            "tranStateTableOffset": str(number),
            "commitLogOffset": str(position),
            "commitOrRollback": "8",
            "fromTransactionCheck": "false",
            "msgId": f"7F00000100010CA5D2F8{number:012X}",
            "transactionId": f"7F00000100010CA5D2F8{number:012X}",
        }
        command = Command(RequestCode.END_TRANSACTION, opaque=number, flag=CommandFlag.ONEWAY, ext=ext)
        if is_signed:
            _sign(command)
        received += encode(command)
    if is_signed:
        learnt = b"RMQ_SYS_TRANS_HALF_TOPIC", b"orders"
        _guard(kernel, log, RequestCode.END_TRANSACTION, b"commitLogOffset", (), *learnt)

    def work() -> int:
        inlet = _inlet(received)
        _plan(kernel, inlet)
        kernel.apply(index, 1 << 20)
        kernel.hand_out()
        ends.take_ended()
        decided[:] = bytes(len(decided))
        assert not inlet.pending_bytes, f"stopped at {inlet.start}"
        return MESSAGES

    return work


@workload("send back")
def send_back() -> Work:
    """Return the work of taking messages of 1 KiB back for their next try, the write itself left out."""
    return _send_backs_of(is_signed=False)


@workload("send back, signed")
def send_back_signed() -> Work:
    """Return the same of an account."""
    return _send_backs_of(is_signed=True)


def _send_backs_of(*, is_signed: bool) -> Work:
    from pyromq._kernel.storage.tails import IndexTail, QueueTail
    from pyromq.broker.requests.send_back_shortcut import make_send_backs
    from pyromq.broker.requests.send_shortcut import kernel_diversion
    from pyromq.broker.topics.intake import PlainDiversion
    from pyromq.codes import RequestCode
    from pyromq.wire.command import Command, encode

    positions, log = _waiting("orders")
    kernel, index, received = _send_kernel(), IndexTail(5_000_000, 20_000_000), b""
    delayed = kernel_diversion(
        PlainDiversion(name="DELAY", topic="SCHEDULE_TOPIC_XXXX", delays_ms=(1_000, 5_000, 10_000)), ""
    )
    delayed.learn(2, QueueTail())
    backs = make_send_backs(lambda: log, delayed, diverting=("DELAY",), body_bytes_max=4 << 20)  # type: ignore[arg-type, return-value]
    backs.learn_group(b"group", b"%RETRY%group", queue_count=1, first_queue=0, times_max=16)
    kernel.take_in(backs)
    for number, position in enumerate(positions):
        ext = {"offset": str(position), "group": "group", "delayLevel": "0", "maxReconsumeTimes": "16"}
        command = Command(RequestCode.CONSUMER_SEND_MSG_BACK, opaque=number, ext=ext)
        if is_signed:
            _sign(command)
        received += encode(command)
    if is_signed:
        learnt = b"group", b"orders", b"orders"
        _guard(kernel, log, RequestCode.CONSUMER_SEND_MSG_BACK, b"offset", (b"group",), *learnt)

    def work() -> int:
        inlet = _inlet(received)
        _plan(kernel, inlet)
        kernel.apply(index, 1 << 20)
        kernel.hand_out()
        assert not inlet.pending_bytes, f"stopped at {inlet.start}"
        return MESSAGES

    return work


@workload("deliver")
def deliver() -> Work:
    """Return the work of storing delayed messages of 1 KiB in their own topic, the write itself left out."""
    from pyromq._kernel.storage.again import DuePlan
    from pyromq._kernel.storage.tails import IndexTail, QueueTail

    positions, log = _waiting("SCHEDULE_TOPIC_XXXX")
    plan = DuePlan(store_host=HOST, has_index=True, body_bytes_max=4 << 20)
    index, asked = IndexTail(5_000_000, 20_000_000), array("q", positions)
    for queue_id in range(2):
        plan.learn(b"orders", queue_id, QueueTail())

    def work() -> int:
        count = plan.plan_due(
            asked,
            log=log,  # type: ignore[arg-type]
            timed_topic=None,
            now_ms=1_700_000_000_000,
            log_end=POSITION,
            log_room=1 << 30,
            index_room=1 << 20,
        )
        plan.apply(index, 1 << 20)
        return count

    return work


@workload("queue entries")
def queue_entries() -> Work:
    """Return the work of adding an entry to a queue for each message."""
    from pyromq._kernel.storage.tails import QueueTail

    tail = QueueTail()

    def work() -> int:
        for number in range(MESSAGES):
            tail.add(POSITION + 1200 * number, 1200, 97)
        return MESSAGES

    return work


@workload("timer rows")
def timer_rows() -> Work:
    """Return the work of making rows of entries of the timer queue, none of which is due soon."""
    from pyromq._kernel.storage.due_rows import near_rows, rows_before
    from pyromq.store.consumequeue import ENTRY

    due_ms = 1_700_000_000_000
    entries = b"".join(
        ENTRY.pack(POSITION + 350 * number, 350, due_ms + number // 3) for number in range(MESSAGES)
    )

    def work() -> int:
        assert near_rows(entries, (-1, -1), (due_ms - 1, 0)) == ([], due_ms)
        count, _ = rows_before(entries, POSITION << 1)
        return int(count)

    return work


@workload("index entries")
def index_entries() -> Work:
    """Return the work of entering a key of each message into the index."""
    from pyromq._kernel.storage.tails import IndexTail

    tail = IndexTail(5_000_000, 20_000_000)

    def work() -> int:
        for number in range(MESSAGES):
            tail.put(number * 7919, POSITION + 1200 * number, 1_700_000_000_000 + number)
        return MESSAGES

    return work


@workload("verify")
def verify() -> Work:
    """Return the work of checking records of 1 KiB, as `pyromq store verify` does."""
    from pyromq._kernel.storage.facts import scan
    from pyromq.store.inspect.facts import Facts
    from pyromq.wire.record import Record, decode_record, encode_record

    log = b""
    for number in range(MESSAGES + 1):
        properties = f"UNIQ_KEY\x017F00000100010CA5D2F8{number:012X}\x02KEYS\x01key-{number}\x02TAGS\x01paid"
        log += encode_record(
            Record(
                topic="orders",
                body=BODY,
                properties=properties,
                position=POSITION + len(log),
                queue_offset=number,
            )
        )
    facts = Facts({})
    # The first of a queue is Python's.
    first = decode_record(log, 0)
    facts.take_in(first, POSITION)

    def work() -> int:
        at = scan(log, first.size, len(log), POSITION, facts)
        assert at == len(log), f"stopped at {at}"
        return MESSAGES

    return work


@workload("copy")
def copy() -> Work:
    """Return the work of copying records of 1 KiB from a master's log, the write itself left out."""
    return _copy_of("")


@workload("copy delayed")
def copy_delayed() -> Work:
    """Return the work of copying records whose queue has the times when they are due."""
    return _copy_of("\x02DELAY\x012", b"DELAY", (1000, 5000))


def _copy_of(more: str, due_name: bytes | None = None, delays_ms: tuple[int, ...] = ()) -> Work:
    from pyromq._kernel.storage.copies import Copies
    from pyromq._kernel.storage.tails import IndexTail, QueueTail
    from pyromq.wire.record import Record, encode_record

    log = b""
    for number in range(MESSAGES):
        plain = f"UNIQ_KEY\x017F00000100010CA5D2F8{number:012X}\x02KEYS\x01key-{number}\x02TAGS\x01paid"
        log += encode_record(
            Record(
                topic="orders",
                body=BODY,
                properties=plain + more,
                position=POSITION + len(log),
                queue_id=number % 2,
                queue_offset=number // 2,
            )
        )
    copies, index = Copies(has_index=True), IndexTail(5_000_000, 20_000_000)
    for queue_id in range(2):
        copies.learn(b"orders", queue_id, QueueTail(), due_name, delays_ms)

    def work() -> int:
        taken = copies.plan(log, POSITION, 1 << 30, 1 << 20)
        assert taken == len(log), f"stopped at {taken}"
        copies.apply(index, 1 << 20)
        return MESSAGES

    return work


def _pulled() -> bytes:
    """Return an answer's body: records of small messages, as Spark's readers get them."""
    from pyromq.wire.record import Record, encode_host, encode_record

    host = encode_host("127.0.0.1", 10911)
    return b"".join(
        encode_record(
            Record(
                topic="orders",
                body=BODY[:100],
                properties=f"UNIQ_KEY\x017F00000100010CA5D2F8{number:012X}\x02KEYS\x01key-{number}\x02TAGS\x01paid",
                queue_offset=number,
                position=POSITION + 400 * number,
                born_host=host,
                store_host=host,
            )
        )
        for number in range(MESSAGES)
    )


@workload("scan")
def scan() -> Work:
    """Return the work of turning pulled messages of 100 bytes into Arrow's columns in one walk."""
    from pyromq._kernel.spark.scan import Scan

    pulled = _pulled()
    names = ("body", "msg_id", "tags", "keys", "properties", "queue_id", "queue_offset", "store_timestamp")
    columns = Scan((*names, "topic", "broker", "born_host", "deliver_at", "message_group"))

    def work() -> int:
        end = columns.add(pulled, "broker-a", frozenset(), 1 << 60)
        assert end == len(pulled), f"stopped at {end}"
        assert len(columns.take()) == len(names) + 5
        return MESSAGES

    return work


@workload("columns")
def columns() -> Work:
    """Return the work of turning messages of 100 bytes, of which nothing was read, into Arrow's columns."""
    from pyromq._kernel.spark import columns
    from pyromq.client.consumer.incoming import received_messages

    messages = received_messages(_pulled(), "broker-a", {}, frozenset())

    def work() -> int:
        for name in ("queue_id", "queue_offset", "store_timestamp"):
            columns.numbers(messages, name)
        for name in ("topic", "broker", "born_host", "body"):
            columns.texts(messages, name)
        columns.named(messages, ("msg_id", "tags", "keys", "message_group"))
        columns.due_times(messages)
        columns.pairs(messages)
        return len(messages)

    return work


@workload("publish")
def publish() -> Work:
    """Return the work of publishing a staged chunk of messages of 100 bytes, the write itself left out."""
    from pyromq._kernel.storage.plans import Plan, measure_units
    from pyromq._kernel.storage.tails import IndexTail, QueueTail
    from pyromq.wire.batch import BatchUnit, encode_batch

    host = bytes([127, 0, 0, 1, 0, 0, 42, 159])
    text = "UNIQ_KEY\x017F00000100010CA5D2F8{:012X}\x02KEYS\x01key-{}\x02TAGS\x01paid"
    units = encode_batch(
        [BatchUnit(flag=0, body=BODY[:100], properties=text.format(n, n)) for n in range(MESSAGES)]
    )
    plan, index, queue = Plan(store_host=host, has_index=True), IndexTail(5_000_000, 20_000_000), QueueTail()

    def work() -> int:
        measured = measure_units(units, (b"DELAY", b"TRAN_MSG"), 30)
        assert measured is not None
        count = plan.plan_units(
            units,
            0,
            topic=b"orders",
            queue_id=1,
            queue=queue,
            sys_flag=0,
            born_at_ms=1_700_000_000_000,
            born_host=host,
            prepared_position=POSITION,
            more_properties=b"CLUSTER\x01DefaultCluster",
            now_ms=1_700_000_000_000,
            log_end=POSITION,
            log_room=1 << 30,
            index_room=1 << 20,
        )
        plan.apply(index, 1 << 20)
        return count

    return work


def _plain_sends() -> "tuple[Any, Any]":
    """Return a producer's plain sends to a known topic, and the connection that their frames go to."""
    from pyromq._kernel.codec.inlets import Inlet, TurnInlets
    from pyromq.client.client_session import new_session
    from pyromq.client.producer.plain_teaching import PlainSendTeacher
    from pyromq.client.producer.queue_choice import RoundRobin
    from pyromq.config.settings import ClientSettings
    from pyromq.wire.bodies.route_bodies import BrokerData, BrokerQueues, TopicRoute

    class Connection(Inlet):
        """A connection without a peer."""

        takes_requests = True
        opaque = 1_000_000

        def next_opaque(self) -> int:
            self.opaque += 1
            return self.opaque

        def expect(self, opaque: int, awaited: object) -> None:
            self.waiting[opaque] = awaited

    turn = TurnInlets()
    turn.is_planned = True
    connection = Connection(turn, lambda: 0.0, 1 << 30)
    connection.waiting = {}
    session = new_session("producers", ("127.0.0.1:9876",), ClientSettings(client_ip="127.0.0.1"))
    queues = BrokerQueues(broker_name="a", read_queue_nums=4, write_queue_nums=4, perm=6)
    broker = BrokerData(cluster="c", broker_name="a", broker_addrs={0: "127.0.0.1:10911"})
    session.routes.put("orders", TopicRoute(queue_datas=[queues], broker_datas=[broker]))
    session._turns["orders"] = RoundRobin(start=0)
    return PlainSendTeacher(session, {"127.0.0.1:10911": connection}), connection


@workload("plain send of a client")
def plain_send() -> Work:
    """Return the work of putting a client's sends of 1 KiB, with a tag and a key, on their connection."""
    from pyromq.model import Message

    teacher, _ = _plain_sends()
    messages = [Message("orders", BODY, tags="paid", keys=f"key-{number}") for number in range(MESSAGES)]
    teacher.learn(messages[0])

    def work() -> int:
        for message in messages:
            assert teacher.kernel.begin(message, None, 1_700_000_000_000, 0.0, 3.0) is not None
        return MESSAGES

    return work


@workload("answer to a client's send")
def plain_answer() -> Work:
    """Return the work of giving received answers to the sends that wait for them."""
    from pyromq.codes import CommandFlag
    from pyromq.model import Message
    from pyromq.wire.command import Command, encode

    class Told:
        """A place for an answer."""

        def done(self) -> bool:
            return False

        def set_result(self, result: object) -> None:
            pass

    teacher, connection = _plain_sends()
    message, frames = Message("orders", BODY), []
    teacher.learn(message)
    for number in range(MESSAGES):
        send = teacher.kernel.begin(message, Told(), 1_700_000_000_000, 0.0, 3.0)
        ext = {"queueId": str(number % 4), "TRACE_ON": "true", "MSG_REGION": "DefaultRegion"}
        ext |= {"msgId": "7F00000100002A9F0000000000000000", "queueOffset": "1234567"}
        frames.append(encode(Command(0, opaque=send.opaque, flag=CommandFlag.RESPONSE, ext=ext)))
    connection.feed(b"".join(frames))

    def work() -> int:
        assert teacher.kernel.take_answers([connection])
        assert not connection.waiting
        return MESSAGES

    return work


def main() -> None:
    """Do all work once; told the marks' library, say to callgrind where each begins and ends."""
    marks = ctypes.CDLL(Path(sys.argv[1]).as_posix())
    for name, prepare in WORKLOADS.items():
        work = prepare()
        marks.begin()
        messages = work()
        marks.end(f"{name}|{messages}".encode())


if __name__ == "__main__":
    main()
