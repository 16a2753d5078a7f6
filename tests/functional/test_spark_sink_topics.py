"""Which topics a write from Spark may create: none, unless it is told to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from sink_stage import batch_of, messages_in, write

from pyromq import Admin
from pyromq.errors import ConfigError
from pyromq.testing.cluster import running_cluster
from pyspark_rocketmq.failures import WriteFailed
from pyspark_rocketmq.sink import outlets
from pyspark_rocketmq.sink.sink_options import read_sink_options


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_cluster(data_dir=Path(tmp_path_factory.mktemp("sink"))) as cluster:
        yield cluster.namesrv_address


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "NO_ROUTE_MS_MAX", 0)


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_topic_that_is_not_there_is_not_created_by_a_write(name_server: str, delivery: str) -> None:
    options = {"nameServer": name_server, "delivery": delivery, "createTopics": "false"}

    with pytest.raises(WriteFailed, match=r"^topic 'typo' does not exist .*pyromq topic create typo"):
        write(batch_of(body=["a"]), topic="typo", **options)
    with pytest.raises(WriteFailed, match=r"^topic 'typo' does not exist .*createTopics=true"):
        write(batch_of(body=["a"], topic=["typo"]), **options)

    with Admin(name_server) as admin:
        assert "typo" not in admin.topics()


def test_not_to_create_topics_is_the_default(name_server: str) -> None:
    assert read_sink_options({"nameserver": name_server}).connection.settings().create_topic_key == ""


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_write_that_may_create_topics_does(name_server: str, delivery: str) -> None:
    topic = f"new-{delivery}"
    options = {"nameServer": name_server, "delivery": delivery, "createTopics": "true"}

    written = write(batch_of(body=["a"]), topic=topic, **options)
    outlets.publish(read_sink_options({"nameserver": name_server}), [written])

    assert [message.body for message in messages_in(name_server, topic)] == [b"a"]


def test_an_answer_that_is_neither_yes_nor_no_is_named(name_server: str) -> None:
    with pytest.raises(ConfigError, match="createTopics is 'maybe'"):
        read_sink_options({"nameserver": name_server, "createtopics": "maybe"})
