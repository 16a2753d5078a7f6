"""Our consumers that subscribe differently, and what `pyromq admin consumerStatus` says of them."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count

import pytest
from click.testing import Result
from push_stage import FIRST, QUICK, Handler, own
from typer.testing import CliRunner

import pyromq
from pyromq import Message
from pyromq.cli.main import app
from pyromq.config.settings import ClientSettings
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually

_numbers = count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(subscription_conflict_grace=0) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def strict() -> Iterator[ThreadCluster]:
    with running_cluster(reject_inconsistent_subscription=True) as cluster:
        yield cluster


@pytest.fixture
def names() -> tuple[str, str]:
    """A topic and a group of this test alone."""
    number = next(_numbers)
    return f"orders_{number}", f"readers_{number}"


@pytest.fixture
def status(cluster: ThreadCluster) -> Callable[..., Result]:
    """Run `pyromq admin consumerStatus`."""

    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["admin", "consumerStatus", "-n", cluster.namesrv_address, *words])

    return run


def member(
    closing: ExitStack, cluster: ThreadCluster, names: tuple[str, str], tags: str, instance: str
) -> tuple[pyromq.PushConsumer, Handler]:
    topic, group = names
    handler = Handler()
    consumer = pyromq.PushConsumer(
        group, cluster.namesrv_address, listener=handler, instance_name=instance, **QUICK, **FIRST
    )
    consumer.subscribe(topic, tags)
    return closing.enter_context(consumer), handler


def create(cluster: ThreadCluster, topic: str) -> None:
    with pyromq.Admin(cluster.namesrv_address) as admin:
        admin.create_topic(topic, queue_count=4)


@pytest.mark.row("MM-11")
def test_consumers_log_and_offer_what_differs_until_they_agree(
    cluster: ThreadCluster, names: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    topic, _ = names
    create(cluster, topic)
    with ExitStack() as closing:
        one, _ = member(closing, cluster, names, "*", "one")
        other, _ = member(closing, cluster, names, "paid", "other")
        for consumer in (one, other):
            said = eventually(lambda consumer=consumer: consumer.subscription_conflict)
            assert f"client {other.client_id}: {topic} tags paid; client {one.client_id}: {topic} *" in said
        warned = eventually(
            lambda: [
                record
                for record in list(caplog.records)
                if record.name == "pyromq.client" and "subscribe differently" in record.getMessage()
            ]
        )
        assert {record.levelno for record in warned} == {logging.WARNING}

        other.subscribe(topic, "*")

        eventually(lambda: other.subscription_conflict is None)


@pytest.mark.row("MM-11")
def test_pull_consumers_offer_it_too(cluster: ThreadCluster, names: tuple[str, str]) -> None:
    topic, group = names
    create(cluster, topic)
    with ExitStack() as closing:
        pullers = []
        for instance, tags in (("one", "*"), ("other", "paid")):
            settings = ClientSettings(instance_name=instance)
            puller = closing.enter_context(pyromq.PullConsumer(group, cluster.namesrv_address, settings))
            puller.subscribe(topic, tags)
            pullers.append(puller)
        for puller in pullers:
            assert f"{topic} tags paid" in eventually(lambda puller=puller: puller.subscription_conflict)


@pytest.mark.row("MM-11")
def test_a_consumer_that_is_refused_gets_no_queues_and_the_others_get_every_message(
    strict: ThreadCluster, names: tuple[str, str]
) -> None:
    topic, _ = names
    create(strict, topic)
    with ExitStack() as closing, pyromq.Producer("producers", strict.namesrv_address) as producer:
        one, handler = member(closing, strict, names, "*", "one")
        eventually(lambda: len(own(one, topic)) == 4)
        odd, odd_handler = member(closing, strict, names, "paid", "odd")
        assert f"client {odd.client_id}: {topic} tags paid" in eventually(lambda: odd.subscription_conflict)

        bodies = [b"%d" % number for number in range(8)]
        for body in bodies:
            producer.send(Message(topic, body, tags="paid" if int(body) % 2 else "sent"))

        eventually(lambda: sorted(handler.bodies) == bodies)
        assert odd.assignment() == []
        assert odd_handler.bodies == []

        odd.subscribe(topic, "*")

        eventually(lambda: len(own(odd, topic)) == 2)
        eventually(lambda: odd.subscription_conflict is None)


@pytest.mark.row("MM-10")
def test_consumer_status_shows_the_members_of_a_group_that_agrees(
    cluster: ThreadCluster, names: tuple[str, str], status: Callable[..., Result]
) -> None:
    topic, group = names
    create(cluster, topic)
    with ExitStack() as closing:
        one, _ = member(closing, cluster, names, "b||a", "one")
        other, _ = member(closing, cluster, names, "a || b", "other")
        result = status("-g", group)
        assert result.exit_code == 0, result.output
        assert "Same subscription in the same group of consumer" in result.output
        for consumer in (one, other):
            assert consumer.client_id in result.output
        assert f"{topic} tags a||b" in result.output


@pytest.mark.row("MM-11")
def test_consumer_status_ends_with_3_and_names_what_differs(
    cluster: ThreadCluster, names: tuple[str, str], status: Callable[..., Result]
) -> None:
    topic, group = names
    create(cluster, topic)
    with ExitStack() as closing:
        one, _ = member(closing, cluster, names, "*", "one")
        other, _ = member(closing, cluster, names, "paid", "other")
        eventually(lambda: one.subscription_conflict)
        result = status("-g", group)
        assert result.exit_code == 3, result.output
        difference = f"client {other.client_id}: {topic} tags paid; client {one.client_id}: {topic} *"
        assert "WARN: Different subscription in the same group of consumer!!!" in result.output
        assert result.output.count(difference) == 1
        assert "broker-a says so since 20" in result.output

        record = json.loads(status("-g", group, "--json").output)
        assert record["is_consistent"] is False
        assert record["difference"] == record["reports"]["broker-a"]["difference"] == difference


def test_consumer_status_of_one_member_shows_all_that_it_says(
    cluster: ThreadCluster, names: tuple[str, str], status: Callable[..., Result]
) -> None:
    topic, group = names
    create(cluster, topic)
    with ExitStack() as closing:
        one, _ = member(closing, cluster, names, "*", "one")
        eventually(lambda: len(own(one, topic)) == 4)
        result = status("-g", group, "-i", one.client_id, "-s")
        assert result.exit_code == 0, result.output
        for part in ("PROP_CLIENT_VERSION", f"{topic} *", "broker-a", "#Consumer jstack#"):
            assert part in result.output


@pytest.mark.parametrize("words", [(), ("-b", "ADDRESS")], ids=["all brokers", "one broker"])
def test_consumer_status_of_a_group_without_members_says_so(
    cluster: ThreadCluster, status: Callable[..., Result], words: tuple[str, ...]
) -> None:
    given = [word.replace("ADDRESS", cluster.broker_addresses[0]) for word in words]
    result = status("-g", "nobody", *given)
    assert result.exit_code == 1
    assert "no consumer of group nobody is connected" in result.stderr
