"""The tables on disk are replaced whole, in an order that no crash can tear, before anybody is answered."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from kinds_stage import ManualStage, running_stage, settle, text_of
from staged_files import StagedFiles

from pyromq.codes import RequestCode, ResponseCode
from pyromq.namesrv.key_values import KeyValues
from pyromq.testing.waiting import aeventually

Change = Callable[[ManualStage, int], Awaitable[None]]


@pytest.fixture
def files() -> StagedFiles:
    return StagedFiles()


@pytest.fixture
async def stage(tmp_path: Path, files: StagedFiles) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path, files=files) as stage:
        yield stage


async def make_topic(stage: ManualStage, number: int) -> None:
    fields = {
        "topic": f"made-{number}",
        "defaultTopic": "TBW102",
        "readQueueNums": 2,
        "writeQueueNums": 2,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    answer = await stage.connect().request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    assert answer.code == ResponseCode.SUCCESS


async def make_group(stage: ManualStage, number: int) -> None:
    await stage.connect().pull("TopicTest", group=f"group-{number}")


async def commit(stage: ManualStage, number: int) -> None:
    fields = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": number}
    await stage.connect().request(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    stage.clock.advance(5_000)


async def deliver_delayed(stage: ManualStage, number: int) -> None:
    client = stage.connect()
    await client.send("orders", properties={"DELAY": "1"})
    stage.clock.advance(1_000)
    await client.await_stored("orders", number)
    stage.clock.advance(10_000)


CHANGES: dict[str, Change] = {
    "topics.json": make_topic,
    "subscriptionGroup.json": make_group,
    "consumerOffset.json": commit,
    "delayOffset.json": deliver_delayed,
}


def replacement(name: str) -> list[str]:
    """Return what replaces a file that is there."""
    return [
        f"open {name}.tmp",
        f"write {name}.tmp",
        f"sync {name}.tmp",
        f"rename {name} to {name}.bak",
        f"rename {name}.tmp to {name}",
    ]


def is_synced_at_the_end(files: StagedFiles, name: str) -> bool:
    """Return whether the folder was synced after the file got its name."""
    kinds = [f"{kind} {path.name}" for kind, path in files.operations]
    return "sync folder config" in kinds[len(kinds) - kinds[::-1].index(f"rename {name}.tmp to {name}") :]


@pytest.mark.row("ST-25")
@pytest.mark.parametrize("name", CHANGES)
async def test_a_table_is_written_beside_synced_renamed_and_its_folder_synced(
    stage: ManualStage, files: StagedFiles, name: str
) -> None:
    change = CHANGES[name]
    await change(stage, 1)
    await aeventually(lambda: is_renamed(files, name, 1))
    await aeventually(lambda: is_synced_at_the_end(files, name))
    files.operations.clear()

    await change(stage, 2)
    await aeventually(lambda: is_renamed(files, name, 1))
    await aeventually(lambda: is_synced_at_the_end(files, name))

    assert files.of(name)[: len(replacement(name))] == replacement(name)


def is_renamed(files: StagedFiles, name: str, times: int) -> bool:
    return files.of(name).count(f"rename {name}.tmp to {name}") >= times


async def test_the_table_of_key_values_is_replaced_the_same_way(tmp_path: Path, files: StagedFiles) -> None:
    path = tmp_path / "config" / "kvConfig.json"
    values = KeyValues(path, files=files)
    await values.put("n", "k", "1")
    files.operations.clear()

    await values.put("n", "k", "2")

    assert files.of("kvConfig.json") == replacement("kvConfig.json")
    assert is_synced_at_the_end(files, "kvConfig.json")


@pytest.mark.row("ST-25")
async def test_who_makes_a_topic_is_answered_after_the_folder_was_synced(
    stage: ManualStage, files: StagedFiles
) -> None:
    await make_topic(stage, 1)

    assert is_renamed(files, "topics.json", 1)
    assert is_synced_at_the_end(files, "topics.json")


@pytest.mark.row("ST-25")
async def test_who_makes_a_topic_by_sending_is_answered_after_it_too(
    stage: ManualStage, files: StagedFiles
) -> None:
    answer = await stage.connect().send("by-sending")

    assert answer.code == ResponseCode.SUCCESS
    assert is_synced_at_the_end(files, "topics.json")
    assert "by-sending" in (stage.folder / "config" / "topics.json").read_text()


@pytest.mark.row("ST-25", "RT-12")
async def test_who_sends_a_message_back_is_answered_after_its_topics_are_on_disk(
    stage: ManualStage, files: StagedFiles
) -> None:
    """A kill after the answer used to leave a dead letter in a topic that the broker did not know."""
    client = stage.connect()
    await client.heartbeat(consumer="readers")
    await client.send("orders")
    (record,) = await client.stored("orders")
    # The heartbeat began to write the retry topic; that write is none of ours.
    await aeventually(lambda: "%RETRY%readers" in text_of(stage.folder / "config" / "topics.json"))
    fields = {"offset": record.position, "group": "readers", "delayLevel": -1, "originTopic": "orders"}

    answer = await client.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)

    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert "%DLQ%readers" in (stage.folder / "config" / "topics.json").read_text()
    assert is_synced_at_the_end(files, "topics.json")


@pytest.mark.row("ST-25")
async def test_progress_is_on_disk_five_seconds_later(stage: ManualStage, files: StagedFiles) -> None:
    """It is what a crash may lose, and no more; RocketMQ's flushConsumerOffsetInterval."""
    client = stage.connect()
    fields = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": 7}
    await client.request(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    stage.clock.advance(4_999)
    await settle()
    assert files.of("consumerOffset.json") == []

    stage.clock.advance(1)

    await aeventually(lambda: is_renamed(files, "consumerOffset.json", 1))
    saved = (stage.folder / "config" / "consumerOffset.json").read_text()
    assert '"orders@readers":{0:7' in saved.replace("\t", "").replace("\n", "")


@pytest.mark.row("ST-25")
async def test_after_a_stop_all_tables_of_a_broker_are_there(tmp_path: Path) -> None:
    async with running_stage(tmp_path) as stage:
        for number, change in enumerate(CHANGES.values(), 1):
            await change(stage, 1 if number == len(CHANGES) else number)

    names = {path.name for path in (tmp_path / "config").iterdir()}
    tables = {*CHANGES, "consumerFilter.json"}
    assert tables <= names
    assert names - tables <= {f"{name}.bak" for name in tables}
    assert "made-1" in json.loads((tmp_path / "config" / "topics.json").read_text())["topicConfigTable"]
