from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyromq.broker.topics.intake import Intake
from pyromq.config.settings import MIB, StoreSettings
from pyromq.errors import MessageIllegal, ServiceNotAvailable
from pyromq.store.files import DiskUse, SystemFiles
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire import properties as names
from pyromq.wire.record import encode_host

HOST = encode_host("127.0.0.1", 10911)


class FullDisk(SystemFiles):
    """A disk of which 91 percent are used."""

    def disk_use(self, path: Path) -> DiskUse:
        return DiskUse(used_bytes=91, usable_bytes=9)


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., MessageStore]]:
    stores: list[MessageStore] = []

    def open_store(files: SystemFiles | None = None) -> MessageStore:
        settings = StoreSettings(
            store_path_root_dir=str(tmp_path),
            mapped_file_size_commit_log=1 * MIB,
            max_message_size=1000,
        )
        store = MessageStore(settings, clock=ManualClock(), files=files)
        store.open()
        stores.append(store)
        return store

    yield open_store
    for store in stores:
        store.close()


def draft(body: bytes = b"x", **properties: str) -> tuple[Draft, dict[str, str]]:
    made = Draft(
        topic="orders",
        queue_id=0,
        body=body,
        properties=names.encode(properties),
        flag=0,
        sys_flag=0,
        born_at_ms=0,
        born_host=HOST,
        store_host=HOST,
    )
    return made, properties


@pytest.mark.row("SC-08", "CL-06")
def test_a_disk_over_90_percent_full_takes_no_messages(open_store: Callable[..., MessageStore]) -> None:
    intake = Intake(open_store(FullDisk()), message_bytes_max=1000)
    with pytest.raises(ServiceNotAvailable, match="the broker's disk is full"):
        intake.put(*draft())


def test_a_message_over_the_limit_is_illegal(open_store: Callable[..., MessageStore]) -> None:
    intake = Intake(open_store(), message_bytes_max=1000)
    with pytest.raises(MessageIllegal, match="msg body length limit 1000B"):
        intake.put(*draft(b"x" * 1001))


def test_a_store_that_is_closed_takes_no_messages(open_store: Callable[..., MessageStore]) -> None:
    store = open_store()
    store.close()
    with pytest.raises(ServiceNotAvailable, match="message store has been shut down"):
        Intake(store, message_bytes_max=1000).put(*draft())


def test_a_property_with_a_diversion_sends_a_message_elsewhere(
    open_store: Callable[..., MessageStore],
) -> None:
    def divert(message: Draft, properties: dict[str, str]) -> bool:
        properties["REAL_TOPIC"] = message.topic
        message.topic = "waiting"
        return True

    store = open_store()
    placed = Intake(store, message_bytes_max=1000, diversions={"LATER": divert}).put(*draft(LATER="1"))

    record = store.record_at(placed.position)
    assert record is not None
    assert (record.topic, names.decode(record.properties)) == (
        "waiting",
        {"LATER": "1", "REAL_TOPIC": "orders"},
    )


def test_a_diversion_that_does_not_divert_leaves_the_message_as_it_was_written(
    open_store: Callable[..., MessageStore],
) -> None:
    store = open_store()
    message, properties = draft(LATER="0")
    properties["WAIT"] = "true"
    intake = Intake(store, message_bytes_max=1000, diversions={"LATER": lambda *_: False})

    placed = intake.put(message, properties)

    record = store.record_at(placed.position)
    assert record is not None
    assert (record.topic, record.properties) == ("orders", "LATER\x010")


def test_what_is_put_as_it_is_is_not_diverted(open_store: Callable[..., MessageStore]) -> None:
    def divert(message: Draft, _properties: dict[str, str]) -> bool:
        message.topic = "waiting"
        return True

    store = open_store()
    message, _ = draft(LATER="1")

    placed = Intake(store, message_bytes_max=1000, diversions={"LATER": divert}).put_as_is(message)

    record = store.record_at(placed.position)
    assert record is not None
    assert record.topic == "orders"


def test_an_empty_batch_is_illegal(open_store: Callable[..., MessageStore]) -> None:
    with pytest.raises(MessageIllegal):
        Intake(open_store(), message_bytes_max=1000).put_batch([], request_bytes=0)
