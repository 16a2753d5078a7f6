"""Commands that ask all brokers, while one is gone or hangs: the others are heard all the same."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from admin_stage import AdminStage
from loop_thread import LoopThread, loop_thread
from namesrv_stage import StageBroker
from scale_stage import silent_broker

from pyromq.cli import exit_status
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.wire_client import WireClient

TOPIC = "orders"
GROUP = "billing"
#: The first that is asked.
GONE = "a-broker-gone"
#: Nobody listens there.
GONE_PORT = 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def thread() -> Iterator[LoopThread]:
    with loop_thread() as thread:
        yield thread


@pytest.fixture(scope="module")
def stage(cluster: ThreadCluster, thread: LoopThread) -> AdminStage:
    """A broker that runs, with a topic and a group, and one that is gone but still known."""
    stage = AdminStage(cluster.namesrv_address)
    stage.run("group", "create", GROUP)
    stage.fill(TOPIC, 8)
    stage.commit(TOPIC, GROUP, 1)
    thread.enter(gone_broker(cluster.namesrv_address))
    return stage


@asynccontextmanager
async def gone_broker(name_server: str) -> AsyncIterator[None]:
    async with WireClient(name_server) as client:
        await StageBroker(client, GONE, port=GONE_PORT).has_topics(TOPIC, "%RETRY%elsewhere").register()
        yield


LOOKS = (
    ("cluster list", '"broker_name":"broker-a"'),
    ("cluster status", "putTps"),
    ("cluster settings", "brokerName"),
    ("topic list", TOPIC),
    (f"topic show {TOPIC}", "max_offset"),
    (f"topic rates {TOPIC}", GROUP),
    ("group list", GROUP),
    (f"group lag {GROUP}", TOPIC),
    (f"group show {GROUP}", "retryMaxTimes"),
    ("top --once", TOPIC),
    (f"admin topicStatus -t {TOPIC}", "max_offset"),
    (f"admin consumerProgress -g {GROUP}", TOPIC),
)


@pytest.mark.parametrize(("words", "said"), LOOKS)
def test_what_the_others_say_is_shown_and_who_is_missing_is_named(
    stage: AdminStage, words: str, said: str
) -> None:
    ended = stage.run(*words.split(), "--json")

    assert ended.exit_code == exit_status.IN_PART == 5, ended.output
    assert said in ended.stdout
    assert [json.loads(line) for line in ended.stdout.splitlines()]
    assert f"what {GONE} has is missing here: " in ended.stderr
    assert f"127.0.0.1:{GONE_PORT}" in ended.stderr


@pytest.mark.parametrize("words", ["clusterList", "consumerProgress", f"statsAll -t {TOPIC}", "topicList -c"])
def test_lists_under_mqadmins_names_end_well_all_the_same(stage: AdminStage, words: str) -> None:
    ended = stage.admin(*words.split())

    assert ended.exit_code == 0
    assert GONE in ended.output


def test_orders_tell_who_did_it_and_who_did_not(stage: AdminStage) -> None:
    words = ("updateTopicPerm", "-t", TOPIC, "-p", "6", "-c", "DefaultCluster")

    ended = stage.admin(*words)

    assert ended.exit_code == exit_status.FAILED
    assert "update topic perm from 6 to 6 in" in ended.stdout
    assert f"127.0.0.1:{GONE_PORT} did not: " in ended.stderr


def test_programs_read_whose_part_of_a_sum_is_missing(stage: AdminStage) -> None:
    for words in ("topic list", "group list"):
        ended = stage.run(*words.split(), "--json")
        assert json.loads(ended.stdout.splitlines()[0])["silent_brokers"] == [GONE]


def test_what_only_the_missing_one_may_know_is_said_to_be_unknown(stage: AdminStage) -> None:
    for words in ("group show nobody-has-it", "group lag nobody-has-it", f"group members {GROUP}"):
        ended = stage.run(*words.split())

        assert ended.exit_code == exit_status.NO_ANSWER
        assert f"not all answer: {GONE}: " in ended.stderr


def test_a_broker_that_hangs_is_waited_for_once(cluster: ThreadCluster, stage: AdminStage) -> None:
    with loop_thread() as passing:
        address = passing.enter(silent_broker(cluster.namesrv_address, "broker-hangs", TOPIC))
        listed = stage.run("group", "list")

    assert listed.exit_code == exit_status.IN_PART
    assert (
        listed.stderr.count(f"what broker-hangs has is missing here: {address} did not answer in time") == 1
    )
    assert GROUP in listed.stdout


def test_a_cluster_without_brokers_says_how_one_is_started() -> None:
    with running_cluster(0) as empty:
        ended = AdminStage(empty.namesrv_address).run("cluster", "list")

    assert ended.exit_code == exit_status.NOT_THERE
    assert f"pyromq broker -n '{empty.namesrv_address}'" in ended.stderr
