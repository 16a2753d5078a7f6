import logging
from pathlib import Path

import pytest

from pyromq.client.consumer.broadcast_offsets import BroadcastOffsets, home_folder
from pyromq.errors import ConfigError, CorruptRecord, StoreError
from pyromq.model import MessageQueue

pytestmark = pytest.mark.row("OF-02")

CLIENT = "10.0.0.7@DEFAULT"
ONE, OTHER = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
#: As RocketMQ 4.9.8 writes it, tabs and all.
JAVA = (
    '{\n\t"offsetTable":{{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"orders"\n\t\t}:17\n'
    "\t}\n}"
)


@pytest.fixture
def offsets(tmp_path: Path) -> BroadcastOffsets:
    return BroadcastOffsets(tmp_path, CLIENT, "group")


def backup(offsets: BroadcastOffsets) -> Path:
    return offsets.path.with_name("offsets.json.bak")


def test_the_file_is_where_rocketmq_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)

    offsets = BroadcastOffsets(home_folder(), CLIENT, "group")

    assert offsets.path == tmp_path / ".rocketmq_offsets" / CLIENT / "group" / "offsets.json"


def test_without_a_file_nothing_is_known_and_nothing_is_made(offsets: BroadcastOffsets) -> None:
    assert offsets.load() == {}
    assert not offsets.path.parent.exists()


def test_what_is_saved_is_loaded_and_reads_as_rocketmq_s(offsets: BroadcastOffsets) -> None:
    offsets.save({ONE: 17})

    assert offsets.load() == {ONE: 17}
    assert offsets.path.read_text() == JAVA


def test_queues_that_are_not_saved_keep_what_the_file_said(offsets: BroadcastOffsets) -> None:
    offsets.save({ONE: 17, OTHER: 3})
    offsets.save({OTHER: 2})

    assert offsets.load() == {ONE: 17, OTHER: 2}


def test_the_file_before_becomes_the_backup(offsets: BroadcastOffsets) -> None:
    offsets.save({ONE: 17})
    offsets.save({ONE: 18})

    assert backup(offsets).read_text() == JAVA
    assert sorted(path.name for path in offsets.path.parent.iterdir()) == ["offsets.json", "offsets.json.bak"]


@pytest.mark.parametrize("left", [None, b""], ids=["missing", "empty"])
def test_a_crash_between_two_renames_leaves_the_backup(offsets: BroadcastOffsets, left: bytes | None) -> None:
    offsets.save({ONE: 17})
    offsets.path.rename(backup(offsets))
    if left is not None:
        offsets.path.write_bytes(left)

    assert offsets.load() == {ONE: 17}


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"offsetTable"',
        b"[]",
        b'{"offsetTable":{"q":1}}',
        b'{"offsetTable":{{"topic":"t"}:1}}',
        JAVA[:-9].encode(),
    ],
)
def test_for_a_damaged_file_the_backup_is_taken_and_it_is_logged(
    offsets: BroadcastOffsets, caplog: pytest.LogCaptureFixture, damaged: bytes
) -> None:
    offsets.save({ONE: 17})
    offsets.save({ONE: 18})
    offsets.path.write_bytes(damaged)

    with caplog.at_level(logging.ERROR):
        assert offsets.load() == {ONE: 17}

    assert "offsets.json is damaged" in caplog.text


def test_a_damaged_file_never_becomes_the_backup(offsets: BroadcastOffsets) -> None:
    offsets.save({ONE: 17})
    offsets.save({ONE: 18})
    offsets.path.write_bytes(b"{")

    offsets.save({ONE: 19})

    assert backup(offsets).read_text() == JAVA
    assert offsets.load() == {ONE: 19}


def test_without_a_good_copy_the_error_says_what_to_do(offsets: BroadcastOffsets) -> None:
    offsets.save({ONE: 17})
    offsets.path.write_bytes(b"{")

    with pytest.raises(CorruptRecord, match=r"offsets\.json is damaged .* or remove"):
        offsets.load()
    with pytest.raises(CorruptRecord):
        offsets.save({ONE: 18})
    assert offsets.path.read_bytes() == b"{"


def test_a_folder_that_cannot_be_written_is_an_error_with_the_path(tmp_path: Path) -> None:
    (tmp_path / CLIENT).write_text("in the way")
    offsets = BroadcastOffsets(tmp_path, CLIENT, "group")

    with pytest.raises(StoreError, match=r"offsets\.json"):
        offsets.save({ONE: 1})


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="folder"):
        BroadcastOffsets(tmp_path, name, "group")
