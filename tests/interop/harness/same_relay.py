"""Brokers that hand a store to one another: each looks at all of it, writes more, and stops or is killed."""

import json
import random
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from harness import same_bytes, same_script
from harness.processes import Server
from harness.same_files import SharedStore, View, line_to, look
from harness.same_script import BILLS, ORDERS, Sent
from pyromq import Admin, Message, MessageQueue, Producer, PullConsumer, SendResult
from pyromq.codes import Perm, RequestCode, SysFlag
from pyromq.store.inspect.findings import StoreReport
from pyromq.testing.waiting import eventually
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig, encode_group
from pyromq.wire.bodies.offset_bodies import decode_delay_offsets, decode_group_offsets

READERS = "same-readers"
#: Apache's broker saves its tables ten seconds after its start for the first time.
SAVE_TIMEOUT_S = 30


class End(Enum):
    """How a broker's turn ends."""

    STOP = "is stopped"
    KILL = "is killed"


@dataclass(repr=False)
class Turn:
    """One broker's time with the store."""

    kind: str
    end: End
    #: All it said when it had opened the store, and all it said before its last messages.
    found: View = field(default_factory=View)
    left: View = field(default_factory=View)
    #: What it acknowledged; the last few right before its end.
    sent: list[Sent] = field(default_factory=list)
    last: list[Sent] = field(default_factory=list)
    #: The id of a delayed message that was on its way at the end.
    waiting: str = ""
    #: A transaction that was begun, and is committed in the next turn.
    half: Sent | None = None
    #: The files of the script alone, and some of those that the broker left.
    script_files: Path | None = None
    #: What verifying the files found: those of the script, and those that the broker left.
    script_report: StoreReport | None = None
    report: StoreReport | None = None
    has_abort: bool = False
    checkpoint_ms: tuple[int, int] = (0, 0)
    newest_ms: int = 0
    #: Log positions of messages whose keys Apache's broker forgets when it opens what a killed one left.
    forgotten: range = range(0)


@dataclass(repr=False)
class Relay:
    """All turns of a store, and what a broker of ours said that came while Apache's had it."""

    turns: list[Turn] = field(default_factory=list)
    intruder_status: int | None = None
    intruder_output: str = ""
    #: What each broker said when the oldest file of the log was gone.
    shortened: dict[str, View] = field(default_factory=dict)

    def run_turn(self, store: SharedStore, kind: str, end: End, own_port: int) -> Turn:
        """Let a broker have the store; the first makes it and plays the script."""
        turn = Turn(kind, end)
        server = store.start(kind)
        if not self.turns:
            with line_to(store.address, own_port) as line:
                turn.sent += same_script.play(line)
            server = _keep_files(store, turn, server)
        else:
            turn.found = self._look_first(store)
        _write_more(store, turn)
        if self.turns:
            self._commit_half(store)
        turn.left = look(store)
        if end is End.KILL:
            eventually(lambda: _are_tables_saved(store.root, turn.left), SAVE_TIMEOUT_S, what="tables saved")
        _send_last(store, turn)
        _end(server, turn)
        _look_at_files(store, turn)
        if end is End.KILL:
            same_bytes.tear(store.root)
        self.turns.append(turn)
        return turn

    def run_last(self, store: SharedStore, kind: str) -> None:
        """Let a broker look at the store, and another come in between."""
        turn = Turn(kind, End.KILL)
        server = store.start(kind)
        turn.found = self._look_first(store)
        intruder = store.begin("ours")
        self.intruder_status = intruder.wait()
        self.intruder_output = intruder.output
        server.kill()
        turn.report = store.verify()
        self.turns.append(turn)

    def run_shortened(self, store: SharedStore) -> None:
        """Remove the oldest file of the log, as if it had expired, and let both look at what is left."""
        min((store.root / "commitlog").iterdir()).unlink()
        for kind in ("ours", "apache"):
            server = store.start(kind)
            self.shortened[kind] = self._look_first(store)
            server.stop() if kind == "ours" else server.kill()

    def _commit_half(self, store: SharedStore) -> None:
        half = self.turns[-1].half
        assert half is not None
        with line_to(store.address) as line:
            same_script.end_transaction(line, half, SysFlag.TRANSACTION_COMMIT)

    def _look_first(self, store: SharedStore) -> View:
        message_id = self.turns[-1].waiting
        eventually(lambda: _is_delivered(store, message_id), what="the delayed message came")
        return look(store)


def _keep_files(store: SharedStore, turn: Turn, server: Server) -> Server:
    """Copy the files as the script left them. Ours must be stopped for that; Apache's writes at once."""
    if turn.kind == "ours":
        server.stop()
    turn.script_files = store.root.with_name("script")
    shutil.copytree(store.root, turn.script_files)
    turn.script_report = store.verify(turn.script_files)
    return store.start(turn.kind) if turn.kind == "ours" else server


def _end(server: Server, turn: Turn) -> None:
    if turn.end is End.KILL:
        server.kill()
        return
    status = server.stop()
    # A Java program that was asked to end says so by its status.
    assert status == (0 if turn.kind == "ours" else 143), server.output[-4000:]
    assert "Exception" not in server.output, server.output[-4000:]


def _look_at_files(store: SharedStore, turn: Turn) -> None:
    turn.has_abort = store.abort.exists()
    turn.report = store.verify()
    log_ms, queues_ms, _ = same_bytes.checkpoint(store.root)
    turn.checkpoint_ms = log_ms, queues_ms
    turn.newest_ms = list(same_bytes.records(store.root).values())[-1].stored_at_ms
    if turn.end is End.KILL:
        turn.forgotten = same_bytes.forgotten_by_apache(store.root)


def _write_more(store: SharedStore, turn: Turn) -> None:
    randomness = random.Random(len(turn.found.everything))
    with (
        Admin(store.name_server) as admin,
        Producer("same-senders", store.name_server) as producer,
        PullConsumer(READERS, store.name_server) as consumer,
    ):
        number = len(turn.found.everything)
        name = f"same-new-{number}"
        admin.create_topic(name, 2)
        _make_odd_ones(store, turn.kind, number)
        queues = producer.queues(ORDERS)
        for index in range(24):
            body = randomness.randbytes(randomness.randrange(60_000))
            message = _message(ORDERS, body if index % 6 else b"large " * 4000, number + index)
            turn.sent.append(_sent(message, producer.send(message, queue=queues[index % 3])))
        first = _message(name, b"first", number)
        turn.sent.append(_sent(first, producer.send(first)))
        batch = [_message(BILLS, f"of a batch {index}".encode(), index) for index in range(15)]
        turn.sent += _sent_batch(batch, producer.send_batch(batch))
        _delay(store, producer, 1)
        for queue in queues:
            consumer.pull(queue, 0)
            consumer.commit(queue, consumer.max_offset(queue) - queue.queue_id)


def _message(topic: str, body: bytes, number: int) -> Message:
    return Message(
        topic,
        body,
        tags=f"tag-{number % 3}",
        keys=[f"more-{number}", f"any-{number % 40}"],
        properties={"note": f"naïve 中文 {number}"},
        flag=number % 7,
    )


def _sent(message: Message, result: SendResult) -> Sent:
    return Sent(
        message.topic,
        result.queue.queue_id,
        result.queue_offset,
        result.offset_message_id,
        message.body,
        {
            **message.properties,
            "TAGS": message.tags or "",
            "KEYS": " ".join(message.key_list),
            "UNIQ_KEY": result.message_id,
        },
    )


def _sent_batch(batch: list[Message], result: SendResult) -> list[Sent]:
    ids = zip(result.message_id.split(","), result.offset_message_id.split(","), strict=True)
    return [
        _sent(
            message,
            SendResult(result.status, message_id, offset_id, result.queue, result.queue_offset + index),
        )
        for index, (message, (message_id, offset_id)) in enumerate(zip(batch, ids, strict=True))
    ]


def _make_odd_ones(store: SharedStore, kind: str, number: int) -> None:
    """Make a topic and, on Apache's broker, a group in which no value is the default."""
    topic: dict[str, object] = {
        "topic": f"same-odd-{number}",
        "defaultTopic": "TBW102",
        "readQueueNums": 5,
        "writeQueueNums": 3,
        "perm": int(Perm.READ),
        "topicFilterType": "MULTI_TAG",
        "topicSysFlag": 1,
        "order": False,
    }
    group = SubscriptionGroupConfig(
        group_name=f"same-odd-{number}",
        consume_from_min_enable=False,
        consume_broadcast_enable=False,
        retry_queue_nums=3,
        retry_max_times=5,
        which_broker_when_consume_slowly=7,
        notify_consumer_ids_changed_enable=False,
    )
    with line_to(store.address) as line:
        line.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic)
        if kind == "apache":
            line.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_group(group))


def _delay(store: SharedStore, producer: Producer, level: int) -> str:
    """Send a delayed message; of the first level, wait until it is delivered."""
    message = Message(BILLS, b"later", delay_level=level)
    result = producer.send(message, queue=MessageQueue(BILLS, "broker-a", 0))
    if level == 1:
        eventually(lambda: _is_delivered(store, result.message_id), what="the delayed message came")
    return result.message_id


def _is_delivered(store: SharedStore, message_id: str) -> bool:
    with line_to(store.address) as line:
        return line.has_key(BILLS, message_id)


def _send_last(store: SharedStore, turn: Turn) -> None:
    with Producer("same-senders", store.name_server) as producer:
        queues = producer.queues(ORDERS)
        turn.waiting = _delay(store, producer, 2)
        with line_to(store.address) as line:
            script = same_script.Script(line, first_number=10_000 + len(turn.left.everything))
            turn.half = script.send_half(f"begun by {turn.kind} {turn.waiting}".encode())
        for index in range(9):
            message = _message(ORDERS, f"one of the last {index}".encode(), 10_000 + index)
            turn.last.append(_sent(message, producer.send(message, queue=queues[index % 3])))


def _are_tables_saved(root: Path, view: View) -> bool:
    """Return whether the disk has the progress that the broker tells."""
    try:
        progress = decode_group_offsets((root / "config/consumerOffset.json").read_bytes())
        delays = decode_delay_offsets((root / "config/delayOffset.json").read_bytes())
    except (FileNotFoundError, json.JSONDecodeError, ValueError):
        return False  # it is being replaced
    return progress == view.progress and delays == view.delays


#: Who has the store in turn, and how it ends; another broker then has the last look.
RELAYS = {
    "ours first": ((("ours", End.STOP), ("apache", End.STOP), ("ours", End.KILL)), "apache"),
    "apache first": ((("apache", End.KILL), ("ours", End.STOP)), "apache"),
}


def run_relay(name: str, folder: Path, name_server: str, ports: tuple[int, int]) -> Relay:
    """Let the brokers of a relay have a store one after the other."""
    turns, last = RELAYS[name]
    relay = Relay()
    with ExitStack() as closing:
        store = SharedStore(folder, name_server, closing, ports[0])
        for kind, end in turns:
            relay.run_turn(store, kind, end, ports[1])
        if end is End.STOP:
            copy = SharedStore(folder.with_name(f"{name} shortened"), name_server, closing, ports[0])
            shutil.copytree(store.root, copy.root)
            relay.run_shortened(copy)
        relay.run_last(store, last)
    return relay
