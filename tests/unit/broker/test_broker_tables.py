import json
from pathlib import Path

import pytest

from pyromq.broker.groups.groups import GroupTable
from pyromq.broker.groups.offsets import OffsetTable
from pyromq.broker.topics.topics import TopicTable, unit_flag
from pyromq.codes import TopicSysFlag
from pyromq.config.settings import BrokerSettings
from pyromq.errors import ServerFailed
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.topic_bodies import TopicConfig

SYSTEM_TOPICS = {
    # name: queues, permission; as a 4.9.8 that was just started has them
    "SELF_TEST_TOPIC": (1, 6),
    "TBW102": (8, 7),
    "BenchmarkTest": (1024, 6),
    "DefaultCluster": (16, 7),
    "broker-a": (1, 7),
    "OFFSET_MOVED_EVENT": (1, 6),
    "SCHEDULE_TOPIC_XXXX": (18, 6),
    "DefaultCluster_REPLY_TOPIC": (1, 6),
}
SYSTEM_GROUPS = {
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def topic_table(folder: Path, clock: ManualClock, **settings: object) -> TopicTable:
    return TopicTable(folder / "topics.json", BrokerSettings(**settings), clock)  # type: ignore[arg-type]


def group_table(folder: Path, clock: ManualClock, **settings: object) -> GroupTable:
    return GroupTable(folder / "subscriptionGroup.json", BrokerSettings(**settings), clock)  # type: ignore[arg-type]


def test_a_new_broker_has_rocketmqs_system_topics(tmp_path: Path, clock: ManualClock) -> None:
    configs = topic_table(tmp_path, clock).configs
    assert {name: (one.write_queue_nums, one.perm) for name, one in configs.items()} == SYSTEM_TOPICS


@pytest.mark.row("PR-09")
async def test_without_automatic_creation_there_is_no_topic_to_inherit_from(
    tmp_path: Path, clock: ManualClock
) -> None:
    topics = topic_table(tmp_path, clock, auto_create_topic_enable=False)
    assert topics.get("TBW102") is None
    assert topics.inherit("orders", "TBW102", queue_count=4) is None


async def test_a_file_of_an_automatic_past_does_not_bring_automatic_creation_back(
    tmp_path: Path, clock: ManualClock
) -> None:
    before = topic_table(tmp_path, clock)
    before.put(TopicConfig(topic_name="orders"))
    await before.save()

    topics = topic_table(tmp_path, clock, auto_create_topic_enable=False)
    topics.load()

    assert topics.inherit("new", "TBW102", queue_count=4) is None


@pytest.mark.row("PR-10")
async def test_a_topic_inherits_permissions_and_at_most_the_queues_of_its_default(
    tmp_path: Path, clock: ManualClock
) -> None:
    topics = topic_table(tmp_path, clock)
    few = topics.inherit("few", "TBW102", queue_count=4)
    many = topics.inherit("many", "TBW102", queue_count=100)
    await topics.save()
    assert few == TopicConfig(topic_name="few", read_queue_nums=4, write_queue_nums=4, perm=6)
    assert many == TopicConfig(topic_name="many", read_queue_nums=8, write_queue_nums=8, perm=6)


async def test_an_ordinary_topic_lends_nothing(tmp_path: Path, clock: ManualClock) -> None:
    assert topic_table(tmp_path, clock).inherit("new", "BenchmarkTest", queue_count=4) is None


async def test_each_change_raises_the_version_and_is_told(tmp_path: Path, clock: ManualClock) -> None:
    topics = topic_table(tmp_path, clock)
    told: list[int] = []
    topics.on_change = lambda: told.append(topics.table().data_version.counter)
    clock.advance(5)

    topics.put(TopicConfig(topic_name="orders"))
    topics.ensure("%RETRY%g", queue_count=1)
    topics.ensure("%RETRY%g", queue_count=1)
    await topics.save()

    assert told == [1, 2]
    assert topics.table().data_version.timestamp == clock.now_ms()


@pytest.mark.row("SC-07")
async def test_topics_survive_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    before = topic_table(tmp_path, clock)
    before.put(
        TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=3, perm=4, topic_sys_flag=1)
    )
    await before.save()

    after = topic_table(tmp_path, clock)
    after.load()

    assert after.configs == before.configs
    assert after.table().data_version == before.table().data_version


@pytest.mark.row("SC-07")
async def test_the_file_of_topics_has_rocketmqs_fields(tmp_path: Path, clock: ManualClock) -> None:
    topics = topic_table(tmp_path, clock)
    topics.put(TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=3))
    await topics.save()

    written = json.loads((tmp_path / "topics.json").read_text())

    assert written["dataVersion"] == {"counter": 1, "timestamp": clock.now_ms()}
    assert written["topicConfigTable"]["orders"] == {
        "order": False,
        "perm": 6,
        "readQueueNums": 2,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "orders",
        "topicSysFlag": 0,
        "writeQueueNums": 3,
    }


async def test_a_file_that_was_torn_is_read_from_its_twin(tmp_path: Path, clock: ManualClock) -> None:
    before = topic_table(tmp_path, clock)
    before.put(TopicConfig(topic_name="first"))
    await before.save()
    before.put(TopicConfig(topic_name="second"))
    await before.save()
    (tmp_path / "topics.json").write_bytes(b'{"dataVersion":{"counter"')

    after = topic_table(tmp_path, clock)
    after.load()

    assert after.get("first") is not None


def test_the_brokers_own_topics_are_nobody_elses(tmp_path: Path, clock: ManualClock) -> None:
    topics = topic_table(tmp_path, clock)
    for name in ("TBW102", "DefaultCluster", "broker-a", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_anything"):
        with pytest.raises(ServerFailed, match="is conflict with system topic"):
            topics.check_not_system(name)
    topics.check_not_system("orders")


async def test_the_name_servers_say_which_topics_are_ordered(tmp_path: Path, clock: ManualClock) -> None:
    topics = topic_table(tmp_path, clock)
    topics.put(TopicConfig(topic_name="now"))
    topics.put(TopicConfig(topic_name="before", order=True))

    topics.set_ordered(["now", "elsewhere"])
    await topics.save()

    assert {name for name, config in topics.configs.items() if config.order} == {"now"}


def test_a_producer_in_unit_mode_marks_what_it_creates() -> None:
    assert unit_flag("orders", is_unit=True) == TopicSysFlag.UNIT
    assert unit_flag("%RETRY%g", is_unit=True) == TopicSysFlag.UNIT_SUB
    assert unit_flag("orders", is_unit=False) == 0


def test_a_new_broker_has_rocketmqs_system_groups(tmp_path: Path, clock: ManualClock) -> None:
    assert set(group_table(tmp_path, clock).configs) == SYSTEM_GROUPS


async def test_a_group_comes_into_being_by_its_first_use(tmp_path: Path, clock: ManualClock) -> None:
    groups = group_table(tmp_path, clock)
    assert groups.find("readers") == SubscriptionGroupConfig(group_name="readers")
    await groups.save()

    after = group_table(tmp_path, clock, auto_create_subscription_group=False)
    after.load()

    assert after.find("readers") is not None


async def test_without_automatic_creation_only_system_groups_come_into_being(
    tmp_path: Path, clock: ManualClock
) -> None:
    groups = group_table(tmp_path, clock, auto_create_subscription_group=False)
    assert groups.find("readers") is None
    assert groups.find("CID_RMQ_SYS_TRANS") is not None
    await groups.save()


@pytest.mark.row("OF-01", "OF-03")
async def test_progress_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    before = OffsetTable(path)
    before.commit("g", "T", 0, 12)
    before.commit("g", "T", 1, 3)
    await before.save()

    after = OffsetTable(path)
    after.load()

    assert (after.progress("g", "T", 0), after.progress("g", "T", 1)) == (12, 3)
    assert path.read_text() == '{\n\t"offsetTable":{\n\t\t"T@g":{0:12,1:3\n\t\t}\n\t}\n}'


def test_a_group_without_progress_has_none(tmp_path: Path) -> None:
    offsets = OffsetTable(tmp_path / "consumerOffset.json")
    assert offsets.progress("g", "T", 0) is None


def test_progress_may_go_back(tmp_path: Path) -> None:
    offsets = OffsetTable(tmp_path / "consumerOffset.json")
    offsets.commit("g", "T", 0, 12)
    offsets.commit("g", "T", 0, 5)
    assert offsets.progress("g", "T", 0) == 5


async def test_unchanged_progress_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "consumerOffset.json"
    offsets = OffsetTable(path)
    offsets.commit("g", "T", 0, 12)
    await offsets.save()
    path.unlink()

    offsets.commit("g", "T", 0, 12)
    await offsets.save()

    assert not path.exists()


def test_topics_and_groups_are_found_by_each_other(tmp_path: Path) -> None:
    offsets = OffsetTable(tmp_path / "consumerOffset.json")
    offsets.commit("g", "T", 0, 1)
    offsets.commit("g", "U", 0, 1)
    offsets.commit("h", "T", 0, 1)
    assert offsets.topics_of("g") == ["T", "U"]
    assert offsets.groups_of("T") == ["g", "h"]
