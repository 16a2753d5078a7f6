"""Reading a topic that an account may not read is refused, also when the topic has no message."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from access_stage import OPERATOR, OPERATOR_SECRET, SHOP, SHOP_SECRET, write_accounts
from typer.testing import CliRunner, Result

from pyromq import Admin, ClientSettings, PullConsumer, PushConsumer
from pyromq.cli.main import app
from pyromq.errors import Refused
from pyromq.testing.cluster import Cluster, ThreadCluster
from pyromq.testing.waiting import eventually

#: The shop's account may read "orders" as the group "billing", and nothing of "secrets".
READABLE, DENIED, GROUP = "orders", "secrets", "billing"
WHY = "No default permission for topic:secrets"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadCluster]:
    place: Path = tmp_path_factory.mktemp("denied")
    accounts = str(write_accounts(place / "conf"))
    with ThreadCluster(Cluster(data_dir=place / "data", acl_enable=True, acl_folder=accounts)) as cluster:
        operator = ClientSettings(access_key=OPERATOR, secret_key=OPERATOR_SECRET)
        with Admin(cluster.namesrv_address, operator) as admin:
            for topic in (READABLE, DENIED):
                admin.create_topic(topic, 2)
        yield cluster


@pytest.fixture
def shop() -> ClientSettings:
    return ClientSettings(access_key=SHOP, secret_key=SHOP_SECRET)


def consume(cluster: ThreadCluster, topic: str, *words: str) -> Result:
    keys = {"PYROMQ_ACCESS_KEY": SHOP, "PYROMQ_SECRET_KEY": SHOP_SECRET}
    words = ("consume", topic, "--group", GROUP, *words, "-n", cluster.namesrv_address)
    return CliRunner().invoke(app, words, env=keys)


@pytest.mark.parametrize("words", [(), ("--from", "last"), ("--json",)], ids=["all", "new", "for programs"])
def test_consume_says_it_and_fails(cluster: ThreadCluster, words: tuple[str, ...]) -> None:
    denied = consume(cluster, DENIED, *words)
    allowed = consume(cluster, READABLE, *words)

    assert isinstance(denied.exception, Refused)
    assert denied.exception.is_denied
    assert WHY in str(denied.exception)
    assert "no messages" not in denied.output
    assert allowed.exit_code == 0, allowed.output


def test_a_poll_raises_it(cluster: ThreadCluster, shop: ClientSettings) -> None:
    with PullConsumer(GROUP, cluster.namesrv_address, shop) as consumer:
        consumer.subscribe(DENIED)
        with pytest.raises(Refused, match=WHY):
            consumer.poll(20_000)
    with PullConsumer(GROUP, cluster.namesrv_address, shop) as consumer:
        consumer.subscribe(READABLE)
        assert consumer.poll(0) == []


def test_a_poll_of_assigned_queues_raises_it(cluster: ThreadCluster, shop: ClientSettings) -> None:
    with PullConsumer(GROUP, cluster.namesrv_address, shop) as consumer:
        consumer.assign(consumer.queues(DENIED))
        with pytest.raises(Refused, match=WHY):
            consumer.poll(20_000)


def test_a_poll_of_a_topic_raises_it(cluster: ThreadCluster, shop: ClientSettings) -> None:
    with PullConsumer(GROUP, cluster.namesrv_address, shop) as consumer:
        with pytest.raises(Refused, match=WHY):
            consumer.poll_topic(DENIED)
        assert consumer.poll_topic(READABLE, wait_ms=0) == []


def test_a_push_consumer_logs_it(
    cluster: ThreadCluster, shop: ClientSettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="pyromq.client")
    with PushConsumer(GROUP, cluster.namesrv_address, settings=shop, listener=lambda _: None) as consumer:
        consumer.subscribe(DENIED)
        eventually(
            lambda: any(
                WHY in record.getMessage() for record in caplog.records if record.name == "pyromq.client"
            ),
            what="the refusal is logged",
        )
