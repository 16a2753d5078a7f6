"""Apache's broker opens a slave's store of ours that began in the middle of its master's log."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness import ports, servers
from harness.missing import unavailable
from harness.observer import Observer
from harness.same_files import INDEX_ENTRIES, INDEX_SLOTS, LOG_FILE_BYTES, QUEUE_FILE_ENTRIES, SharedStore
from harness.toolchains import Unavailable

from pyromq import Admin, Message, MessageQueue, Producer, PullConsumer, PullStatus
from pyromq.clock import SystemClock
from pyromq.config.settings import StoreSettings
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.waiting import eventually
from pyromq.wire.record import encode_host, iter_records

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

TOPIC = "begun"
QUEUES = 2
Opened = tuple[SharedStore, dict[int, list[tuple[int, bytes]]]]
HOST = encode_host("127.0.0.1", 10911)


def open_at(root: Path) -> MessageStore:
    store = MessageStore(
        StoreSettings(
            store_path_root_dir=str(root),
            mapped_file_size_commit_log=LOG_FILE_BYTES,
            mapped_file_size_consume_queue=20 * QUEUE_FILE_ENTRIES,
            max_hash_slot_num=INDEX_SLOTS,
            max_index_num=INDEX_ENTRIES,
        ),
        clock=SystemClock(),
    )
    store.open()
    return store


def copy_from_its_last_file(root: Path, master_root: Path) -> dict[int, list[tuple[int, bytes]]]:
    """Make a master and a slave that begins with its last file; return the slave's messages."""
    master, slave = open_at(master_root), open_at(root)
    # Three files, and a queue whose first message in the last one is in the middle of a queue file.
    for number in range(2500):
        body = b"%05d" % number * 200
        master.put(Draft(TOPIC, number % QUEUES, body, f"KEYS\x01k{number}", 0, 0, 0, HOST, HOST))
    start = master.max_position - master.max_position % LOG_FILE_BYTES
    slave.begin_at(start)
    while data := master.log_bytes(slave.max_position, 32768):
        slave.append_copied(data)
    held = {
        queue_id: [
            (record.queue_offset, record.body)
            for offset in range(slave.min_offset(TOPIC, queue_id), slave.max_offset(TOPIC, queue_id))
            for record in iter_records(slave.get(TOPIC, queue_id, offset, count_max=1).body)
        ]
        for queue_id in range(QUEUES)
    }
    master.close()
    slave.close()
    return held


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The slave's store, open in Apache's broker, and what it holds."""
    folder = tmp_path_factory.mktemp("begun")
    with ExitStack() as closing:
        ready = servers.start_pyromq(folder, closing, "namesrv", "namesrv", "-p", "0", "--data", str(folder))
        port = ports.free_broker_port()
        store = SharedStore(folder / "apache", ready["namesrv"], closing, port)
        held = copy_from_its_last_file(store.root, folder / "master")
        try:
            store.start("apache")
        except Unavailable as reason:
            unavailable(reason)
        with Admin(store.name_server) as admin:
            admin.create_topic(TOPIC, queue_count=QUEUES)
        observer = Observer(store.name_server)
        eventually(lambda: observer.queues(TOPIC), servers.START_TIMEOUT_S, what="the topic has a route")
        yield store, held


@pytest.mark.row("HA-01", "ST-12")
def test_apache_serves_the_messages_at_their_offsets_and_goes_on_behind_them(opened: Opened) -> None:
    store, held = opened
    with PullConsumer("readers", store.name_server) as consumer, Producer("p", store.name_server) as producer:
        queues = consumer.queues(TOPIC)
        assert {queue.queue_id for queue in queues} == set(held)
        for queue in queues:
            expected = held[queue.queue_id]
            assert expected[0][0] % QUEUE_FILE_ENTRIES > 0
            assert consumer.min_offset(queue) == expected[0][0]
            assert consumer.max_offset(queue) == expected[-1][0] + 1
            assert pulled(consumer, queue, expected[0][0]) == expected
            sent = producer.send(Message(TOPIC, b"next"), queue=queue)
            assert sent.queue_offset == expected[-1][0] + 1


@pytest.mark.row("ST-12")
def test_what_apache_leaves_of_it_has_no_fault(opened: Opened) -> None:
    store, _ = opened

    assert store.verify().faults == []


def pulled(consumer: PullConsumer, queue: MessageQueue, offset: int) -> list[tuple[int, bytes]]:
    found = []
    while (result := consumer.pull(queue, offset)).status is PullStatus.FOUND:
        found += [(message.queue_offset, message.body) for message in result.messages]
        offset = result.next_offset
    return found
