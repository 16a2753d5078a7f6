import json

import pytest

from pyromq.errors import CorruptRecord, Refused
from pyromq.namesrv import key_values as module
from pyromq.namesrv.key_values import KeyValues


@pytest.mark.row("NS-16")
async def test_values_outlive_a_restart(tmp_path):
    path = tmp_path / "kvConfig.json"
    before = KeyValues(path)
    await before.put("ns", "key", "value")
    await before.put("ns", "gone", "value")
    await before.delete("ns", "gone")

    after = KeyValues(path)
    after.load()

    assert after.namespace("ns") == {"key": "value"}
    assert json.loads(path.read_bytes()) == {"configTable": {"ns": {"key": "value"}}}


async def test_without_a_path_values_live_in_memory():
    values = KeyValues(None)
    values.load()

    await values.put("ns", "key", "value")

    assert values.get("ns", "key") == "value"


async def test_what_was_never_put_is_absent():
    values = KeyValues(None)

    assert values.get("ns", "key") is None
    assert values.namespace("ns") is None


async def test_an_emptied_namespace_is_still_there():
    values = KeyValues(None)
    await values.put("ns", "key", "value")

    await values.delete("ns", "key")
    await values.delete("other", "key")

    assert values.namespace("ns") == {}
    assert values.namespace("other") is None


def test_a_file_that_rocketmq_wrote_is_read(tmp_path):
    path = tmp_path / "kvConfig.json"
    path.write_bytes(b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4;broker-b:4"}}}')
    values = KeyValues(path)

    values.load()

    assert values.get("ORDER_TOPIC_CONFIG", "T") == "broker-a:4;broker-b:4"


def test_a_file_that_does_not_read_stops_the_start(tmp_path):
    path = tmp_path / "kvConfig.json"
    path.write_bytes(b"[]")

    with pytest.raises(CorruptRecord):
        KeyValues(path).load()


async def test_there_is_an_end_to_what_can_be_put(monkeypatch):
    monkeypatch.setattr(module, "KEYS_MAX", 2)
    values = KeyValues(None)
    await values.put("a", "1", "x")
    await values.put("b", "2", "x")

    await values.put("b", "2", "changed")
    with pytest.raises(Refused, match="2 keys"):
        await values.put("c", "3", "x")


async def test_a_file_that_cannot_be_written_is_told_to_whoever_put(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    values = KeyValues(tmp_path / "file" / "kvConfig.json")

    with pytest.raises(Refused, match="cannot be written"):
        await values.put("ns", "key", "value")
