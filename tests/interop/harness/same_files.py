"""One folder of store files, opened by our broker and by Apache's in turn, and what each says of it."""

import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from harness import servers
from harness.observer import Observer
from harness.processes import Server
from harness.toolchains import java_classpath
from pyromq import Admin, MessageQueue, PullConsumer, PullStatus, QueryNotFound, ReceivedMessage
from pyromq.cli.store_views import layout_of
from pyromq.codes import RequestCode, ResponseCode
from pyromq.store.inspect.findings import StoreReport
from pyromq.store.inspect.store_verification import Verification
from pyromq.testing.waiting import eventually
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig, decode_group_table
from pyromq.wire.bodies.offset_bodies import decode_delay_offsets, decode_group_offsets
from pyromq.wire.bodies.topic_bodies import TopicConfig, decode_topic_table
from pyromq.wire.command import Command, CommandReader, encode

BROKER = "broker-a"
LOG_FILE_BYTES = 1 << 20
QUEUE_FILE_ENTRIES = 60
INDEX_SLOTS, INDEX_ENTRIES = 200, 700
#: Level 1 is over within a test, level 2 outlives a change of brokers, level 3 outlives the test.
DELAY_LEVELS = "1s 3s 1h"

#: Small files, so that all kinds of them roll, and tables that are saved often. The same for both brokers.
SETTINGS: dict[str, str | int] = {
    "mappedFileSizeCommitLog": LOG_FILE_BYTES,
    "maxMessageSize": LOG_FILE_BYTES // 4,
    "mappedFileSizeConsumeQueue": 20 * QUEUE_FILE_ENTRIES - 7,  # both round it up
    "maxHashSlotNum": INDEX_SLOTS,
    "maxIndexNum": INDEX_ENTRIES,
    "messageDelayLevel": DELAY_LEVELS,
    "flushConsumerOffsetInterval": 300,
    "flushDelayOffsetInterval": 300,
    "bindAddress": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
}


class SharedStore:
    """A store folder, and a port for whichever broker has it open."""

    def __init__(self, folder: Path, name_server: str, closing: ExitStack, port: int) -> None:
        self.name_server = name_server
        self.address = f"127.0.0.1:{port}"
        self.root = folder / BROKER / "store"
        self._folder = folder
        self._closing = closing
        folder.mkdir()
        self._environment = servers.apache_home(folder) | servers.OPEN_BUFFERS
        self._settings = servers.broker_file(
            folder, BROKER, port, namesrvAddr=name_server, haListenPort=port + 1, **SETTINGS
        )

    @property
    def abort(self) -> Path:
        """The file that tells a crash from a clean stop."""
        return self.root / "abort"

    def start(self, kind: str) -> Server:
        """Start «ours» or «apache» on the folder; return when clients find it."""
        server = self.begin(kind)
        if kind == "ours":
            server.wait_for_file(self._ready_file, servers.START_TIMEOUT_S)
        else:
            server.wait_for_text("boot success", servers.START_TIMEOUT_S)
        observer = Observer(self.name_server)
        eventually(lambda: observer.queues("TBW102"), servers.START_TIMEOUT_S, what=f"{kind} is registered")
        return server

    def begin(self, kind: str) -> Server:
        """Start «ours» or «apache» on the folder, and do not wait."""
        if kind == "ours":
            self._ready_file.unlink(missing_ok=True)
            command = [*servers.PYROMQ, "broker", "-c", str(self._settings)]
            command += ["--ready-file", str(self._ready_file)]
            server = Server(command, folder=self._folder, name="ours")
        else:
            classpath = java_classpath("server-4.9")
            server = servers.start_java(
                classpath, "broker.BrokerStartup", self._settings, "apache", self._folder, self._environment
            )
        self._closing.callback(server.kill)
        return server

    def verify(self, root: Path | None = None) -> StoreReport:
        """Look at the files, or at a copy of them, as `pyromq store verify` does."""
        root = root or self.root
        layout = layout_of(root, self._settings, [f"storePathCommitLog={root / 'commitlog'}"])
        return Verification(layout).run()

    @property
    def _ready_file(self) -> Path:
        return self._folder / "ours.ready"


class Line:
    """One connection whose own port can be chosen, because a stored message says where it came from."""

    def __init__(self, address: str, own_port: int = 0) -> None:
        host, _, port = address.rpartition(":")
        self._opaques = count(1)
        self._reader = CommandReader()
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if own_port:
            # Hanging up by a reset leaves no trace of the connection: the port can be used again at once.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.settimeout(servers.START_TIMEOUT_S)
        self._socket.bind(("127.0.0.1", own_port))
        self._socket.connect((host, int(port)))

    def ask(self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> Command:
        """Send a request and return its answer, which must not be a refusal."""
        answer = self.try_to_ask(code, fields, body)
        assert answer.code == ResponseCode.SUCCESS, (code, answer.code, answer.remark)
        return answer

    def try_to_ask(self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> Command:
        """Send a request and return its answer, whatever it is."""
        ext = {name: _as_text(value) for name, value in (fields or {}).items()}
        command = Command(code, ext=ext, body=body, opaque=next(self._opaques))
        self._socket.sendall(encode(command))
        while (answer := self._reader.next_command()) is None:
            data = self._socket.recv(1 << 16)
            assert data, f"the broker hung up on request {code}"
            self._reader.feed(data)
        assert answer.opaque == command.opaque
        return answer

    def end_of(self, topic: str, queue_id: int) -> int:
        """Return the offset that a queue's next message gets."""
        ext = self.ask(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue_id}).ext
        assert ext is not None
        return int(ext["offset"])

    def has_key(self, topic: str, unique_id: str) -> bool:
        """Return whether the topic has a message with this unique id, as far as the index is."""
        fields = {
            "topic": topic,
            "key": unique_id,
            "maxNum": 32,
            "beginTimestamp": 0,
            "endTimestamp": 2**62,
            "_UNIQUE_KEY_QUERY": True,
        }
        return bool(self.try_to_ask(RequestCode.QUERY_MESSAGE, fields).body)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


@contextmanager
def line_to(address: str, own_port: int = 0) -> Iterator[Line]:
    """Connect, and hang up at the end."""
    line = Line(address, own_port)
    try:
        yield line
    finally:
        line.close()


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


Queue = tuple[str, int]


@dataclass
class View:
    """All that a broker says of its store: by pulls, by keys, by ids, and its tables."""

    messages: dict[Queue, list[ReceivedMessage]] = field(default_factory=dict)
    by_key: dict[tuple[str, str], set[int]] = field(default_factory=dict)  # topic and key → positions
    by_id: dict[str, ReceivedMessage] = field(default_factory=dict)
    by_time: dict[tuple[Queue, int], int] = field(default_factory=dict)  # queue and stored time → offset
    bounds: dict[Queue, tuple[int, int]] = field(default_factory=dict)
    topics: dict[str, TopicConfig] = field(default_factory=dict)
    groups: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    progress: dict[str, dict[int, int]] = field(default_factory=dict)
    delays: dict[int, int] = field(default_factory=dict)

    @property
    def everything(self) -> list[ReceivedMessage]:
        """All messages, queue by queue."""
        return [message for queue in self.messages.values() for message in queue]


#: A thousand queues, and never used here.
_NOT_LOOKED_AT = frozenset({"BenchmarkTest"})
#: What the client adds to a pulled message, and moves on as its queue does.
_CLIENTS_OWN = ("MIN_OFFSET", "MAX_OFFSET")


def look(store: SharedStore) -> View:
    """Ask whichever broker has the store for everything, through our client."""
    view = View()
    with line_to(store.address) as line:
        _read_tables(line, view)
    with (
        PullConsumer("viewers", store.name_server) as consumer,
        Admin(store.name_server) as admin,
    ):
        for topic in sorted(view.topics.keys() - _NOT_LOOKED_AT):
            for queue in consumer.queues(topic):
                place = (topic, queue.queue_id)
                bounds = consumer.min_offset(queue), consumer.max_offset(queue)
                if bounds[1]:
                    view.bounds[place] = bounds
                    view.messages[place] = list(_pull_all(consumer, queue, bounds[0]))
        for message in view.everything:
            _find(admin, message, view)
    return view


def _read_tables(line: Line, view: View) -> None:
    view.topics = dict(decode_topic_table(line.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body).topic_config_table)
    view.groups = dict(
        decode_group_table(
            line.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body
        ).subscription_group_table
    )
    view.progress = decode_group_offsets(line.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body)
    view.delays = decode_delay_offsets(line.ask(RequestCode.GET_ALL_DELAY_OFFSET).body)


def _pull_all(consumer: PullConsumer, queue: MessageQueue, offset: int) -> Iterator[ReceivedMessage]:
    while (result := consumer.pull(queue, offset)).status is PullStatus.FOUND:
        for message in result.messages:
            yield _without_bounds(message)
        offset = result.next_offset
    assert result.status is PullStatus.NO_NEW_MESSAGE


def _without_bounds(message: ReceivedMessage) -> ReceivedMessage:
    kept = {name: value for name, value in message.properties.items() if name not in _CLIENTS_OWN}
    return replace(message, properties=kept)


def _find(admin: Admin, message: ReceivedMessage, view: View) -> None:
    view.by_id[message.offset_message_id] = _without_bounds(admin.view_message(message.offset_message_id))
    place = (message.topic, message.queue.queue_id)
    view.by_time[place, message.stored_at_ms] = admin.offset_by_time(message.queue, message.stored_at_ms)
    for key in keys_of(message):
        if (message.topic, key) not in view.by_key:
            view.by_key[message.topic, key] = _positions(
                admin, message.topic, key, message.properties.get("UNIQ_KEY")
            )


def _positions(admin: Admin, topic: str, key: str, unique_id: str | None) -> set[int]:
    try:
        if key == unique_id:
            return {admin.find_message(topic, key).position}
        return {found.position for found in admin.query_message(topic, key, count=64)}
    except QueryNotFound:
        return set()


def keys_of(message: ReceivedMessage) -> list[str]:
    """Return what a message is entered under in the index."""
    unique = message.properties.get("UNIQ_KEY")
    return [*([unique] if unique else []), *message.keys]
