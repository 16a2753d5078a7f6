import json

import pytest

from pyromq.errors import CorruptRecord
from pyromq.store.atomic_file import read_with_backup, replace_file


def test_a_file_that_is_not_there_reads_as_none(tmp_path):
    assert read_with_backup(tmp_path / "kv.json", json.loads) is None


def test_what_was_written_is_read_and_the_one_before_is_kept(tmp_path):
    path = tmp_path / "deep" / "kv.json"

    replace_file(path, b'{"a":1}')
    replace_file(path, b'{"a":2}')

    assert read_with_backup(path, json.loads) == {"a": 2}
    assert path.with_name("kv.json.bak").read_bytes() == b'{"a":1}'
    assert not path.with_name("kv.json.tmp").exists()


def test_a_damaged_file_is_set_aside_and_its_twin_is_read(tmp_path, caplog):
    path = tmp_path / "kv.json"
    replace_file(path, b'{"a":1}')
    replace_file(path, b'{"a":2}')
    path.write_bytes(b'{"a":')

    assert read_with_backup(path, json.loads) == {"a": 1}

    assert (tmp_path / "kv.json.damaged").read_bytes() == b'{"a":'
    assert not path.exists()
    assert [record.name for record in caplog.records] == ["pyromq.store"]


def test_a_stop_between_the_two_renames_leaves_the_twin_to_read(tmp_path):
    path = tmp_path / "kv.json"
    replace_file(path, b'{"a":1}')
    path.replace(tmp_path / "kv.json.bak")

    assert read_with_backup(path, json.loads) == {"a": 1}


@pytest.mark.parametrize("twin", [b"\xff", None])
def test_when_no_copy_reads_every_start_is_refused_and_nothing_is_moved(tmp_path, twin):
    """The second start used to find both files set aside, and went on with an empty table."""
    path = tmp_path / "kv.json"
    path.write_bytes(b"{")
    if twin is not None:
        (tmp_path / "kv.json.bak").write_bytes(twin)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    for _ in range(2):
        with pytest.raises(CorruptRecord, match=r"kv\.json is damaged .* nothing was changed"):
            read_with_backup(path, json.loads)

    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_an_empty_table_is_not_a_missing_one(tmp_path):
    path = tmp_path / "kv.json"
    replace_file(path, b'{"a":1}')
    replace_file(path, b"{}")

    assert read_with_backup(path, json.loads) == {}


def test_a_second_damage_does_not_overwrite_the_first(tmp_path):
    path = tmp_path / "kv.json"
    replace_file(path, b'{"a":1}')
    for damage in (b"{1", b"{2", b"{3"):
        replace_file(path, b'{"a":2}')
        path.write_bytes(damage)
        read_with_backup(path, json.loads)
        replace_file(path, b'{"a":3}')

    asides = sorted(file for file in tmp_path.iterdir() if "damaged" in file.name)
    assert [file.read_bytes() for file in asides] == [b"{1", b"{2", b"{3"]
