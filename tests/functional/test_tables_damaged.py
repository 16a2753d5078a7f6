"""A table that does not read is reported and set aside, and never taken for an empty one."""

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kinds_stage import Peer, running_stage

from pyromq.codes import RequestCode
from pyromq.errors import CorruptRecord
from pyromq.namesrv.key_values import KeyValues
from pyromq.wire.bodies.topic_bodies import decode_topic_table

#: What a good table of the time before held, by file.
GOOD = {
    "topics.json": (
        b'{"dataVersion":{"counter":3,"timestamp":1},"topicConfigTable":{"kept":{"order":false,"perm":6,'
        b'"readQueueNums":2,"topicFilterType":"SINGLE_TAG","topicName":"kept","topicSysFlag":0,'
        b'"writeQueueNums":2}}}'
    ),
    "subscriptionGroup.json": (
        b'{"dataVersion":{"counter":3,"timestamp":1},"subscriptionGroupTable":{"kept":{"groupName":"kept"}}}'
    ),
    "consumerOffset.json": b'{"offsetTable":{"orders@readers":{0:0,1:0}}}',
    "delayOffset.json": b'{"offsetTable":{3:0}}',
}
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut short": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(len(data)),
    "another field": lambda data: data.replace(b"Table", b"Tbale", 1).replace(b"Table", b"Tbale", 1),
    "a list": lambda _: b"[]",
    "null": lambda _: b"null",
    "not UTF-8": lambda data: data.replace(b"Table", b"Tab\xff\xfee"),
    "a value of another kind": lambda data: data.replace(b"{", b"[").replace(b"}", b"]"),
}


def config_of(root: Path, **tables: bytes) -> Path:
    folder = root / "config"
    folder.mkdir(parents=True)
    for name, data in tables.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.row("ST-25")
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", GOOD)
async def test_the_twin_is_taken_and_the_damaged_file_is_kept_for_whoever_looks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, damage: str
) -> None:
    damaged = DAMAGES[damage](GOOD[name])
    folder = config_of(tmp_path, **{name: damaged, f"{name}.bak": GOOD[name]})

    with caplog.at_level(logging.ERROR):
        async with running_stage(tmp_path) as stage:
            assert await holds_what_was_good(stage.connect(), name)

    assert (folder / f"{name}.damaged").read_bytes() == damaged
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert str(folder / name) in said
    assert f"{name}.damaged" in said


async def holds_what_was_good(client: Peer, name: str) -> bool:
    match name:
        case "topics.json":
            answer = await client.request(RequestCode.GET_ALL_TOPIC_CONFIG)
            return "kept" in decode_topic_table(answer.body).topic_config_table
        case "subscriptionGroup.json":
            answer = await client.request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
            return b'"kept"' in answer.body
        case "consumerOffset.json":
            answer = await client.request(RequestCode.GET_ALL_CONSUMER_OFFSET)
            return b'"orders@readers":{0:0,1:0}' in answer.body
        case _:
            answer = await client.request(RequestCode.GET_ALL_DELAY_OFFSET)
            return b"{3:0}" in answer.body


@pytest.mark.row("ST-25")
@pytest.mark.parametrize("twin", [b"{", b"", None])
@pytest.mark.parametrize("name", GOOD)
async def test_without_a_twin_that_reads_no_start_succeeds_and_nothing_is_touched(
    tmp_path: Path, name: str, twin: bytes | None
) -> None:
    """The second start used to come up without any topic: the first had moved the files away."""
    tables = {name: b'{"cut'} | ({} if twin is None else {f"{name}.bak": twin})
    folder = config_of(tmp_path, **tables)

    for _ in range(3):
        with pytest.raises(CorruptRecord, match="nothing was changed") as refused:
            async with running_stage(tmp_path):
                pass
        assert str(folder / name) in str(refused.value)
        if twin is not None:
            assert f"{name}.bak" in str(refused.value)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == tables


@pytest.mark.row("ST-25")
async def test_a_good_copy_in_its_place_is_all_that_a_refused_start_needs(tmp_path: Path) -> None:
    folder = config_of(tmp_path, **{"topics.json": b""})
    with pytest.raises(CorruptRecord):
        async with running_stage(tmp_path):
            pass

    (folder / "topics.json").write_bytes(GOOD["topics.json"])

    async with running_stage(tmp_path) as stage:
        assert await holds_what_was_good(stage.connect(), "topics.json")


@pytest.mark.row("ST-25")
async def test_a_stop_between_the_two_renames_costs_nothing(tmp_path: Path) -> None:
    config_of(tmp_path, **{"topics.json.bak": GOOD["topics.json"], "topics.json.tmp": b"{half"})

    async with running_stage(tmp_path) as stage:
        assert await holds_what_was_good(stage.connect(), "topics.json")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_name_servers_table_is_treated_the_same_way(tmp_path: Path, damage: str) -> None:
    good = b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"}}}'
    path = tmp_path / "kvConfig.json"
    path.write_bytes(DAMAGES[damage](good))
    with pytest.raises(CorruptRecord, match=r"kvConfig\.json"):
        KeyValues(path).load()

    path.with_name("kvConfig.json.bak").write_bytes(good)
    values = KeyValues(path)
    values.load()

    assert values.get("ORDER_TOPIC_CONFIG", "T") == "broker-a:4"
    assert path.with_name("kvConfig.json.damaged").read_bytes() == DAMAGES[damage](good)


def test_the_command_ends_with_the_names_of_the_files_and_what_to_do(tmp_path: Path) -> None:
    folder = config_of(tmp_path / "broker-a", **{"topics.json": b"{", "topics.json.bak": b""})

    ended = subprocess.run(
        [Path(sys.executable).with_name("pyromq"), "broker", "--port", "0", "--data", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 1
    said = " ".join(ended.stderr.split())
    for words in (
        str(folder / "topics.json"),
        str(folder / "topics.json.bak"),
        "Put a good copy in its place",
    ):
        assert words in said
    assert "Traceback" not in said
