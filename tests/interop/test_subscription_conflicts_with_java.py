"""Java members that subscribe differently on our broker, and Apache's mqadmin beside ours."""

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from click.testing import Result
from harness.clients import CLIENTS
from harness.missing import unavailable
from harness.program import Program
from harness.servers import Cluster, apache_home, start_ours
from harness.toolchains import JVM, Unavailable, java_classpath, tool
from typer.testing import CliRunner

from pyromq import Admin, NoRoute, Producer, PushConsumer
from pyromq.cli.main import app
from pyromq.codes import RequestCode
from pyromq.testing.requests import heartbeat_body
from pyromq.testing.waiting import eventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.heartbeat_bodies import ConsumeType, Subscription
from pyromq.wire.bodies.running_info import RunningState, encode_running_state
from pyromq.wire.command import Command

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

QUEUES = 4
PATIENCE_S = 60
VERSIONS = ("java-4.9.8", "java-5.5.0")
_numbers = count(1)


@dataclass
class Ours:
    """A broker of ours, and what it logged."""

    cluster: Cluster
    folder: Path

    @property
    def log(self) -> str:
        return (self.folder / "broker-a.out").read_text()


@pytest.fixture(scope="module")
def warning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    """A broker that tells differences at once."""
    folder = tmp_path_factory.mktemp("warning")
    with ExitStack() as closing:
        yield Ours(start_ours(folder, closing, subscriptionConflictGrace=0), folder)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    """A broker that refuses who differs."""
    folder = tmp_path_factory.mktemp("strict")
    with ExitStack() as closing:
        yield Ours(start_ours(folder, closing, rejectInconsistentSubscription="true"), folder)


@pytest.fixture
def names() -> tuple[str, str]:
    """A topic and a group of this test alone."""
    number = next(_numbers)
    return f"orders_{number}", f"readers_{number}"


@pytest.fixture(params=VERSIONS)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Cluster], Program]]:
    """Start a driver of a Java client."""
    with ExitStack() as closing:

        def begin(cluster: Cluster) -> Program:
            try:
                program = CLIENTS[request.param].start(tmp_path, cluster.name_server)
            except Unavailable as error:
                unavailable(error)
            closing.callback(program.close)
            return program

        yield begin


@pytest.fixture
def java_log(tmp_path: Path) -> Callable[[], str]:
    """What the Java client logged."""
    file = tmp_path / "logs" / "rocketmqlogs" / "rocketmq_client.log"
    return lambda: file.read_text() if file.exists() else ""


def create(cluster: Cluster, topic: str) -> None:
    with Admin(cluster.name_server) as admin, Producer("creators", cluster.name_server) as producer:
        admin.create_topic(topic, QUEUES)

        def is_known() -> bool:
            try:
                return len(producer.queues(topic)) == QUEUES
            except NoRoute:
                return False

        eventually(is_known, PATIENCE_S)


def our_status(cluster: Cluster, group: str) -> Result:
    return CliRunner().invoke(app, ["admin", "consumerStatus", "-n", cluster.name_server, "-g", group])


@pytest.mark.row("MM-11")
def test_java_members_that_differ_are_in_the_brokers_log_in_theirs_and_in_consumer_status(
    warning: Ours, start: Callable[[Cluster], Program], names: tuple[str, str], java_log: Callable[[], str]
) -> None:
    topic, group = names
    create(warning.cluster, topic)
    java = start(warning.cluster)
    java.do("join", "one", group, topic, "concurrently", "*")
    java.do("join", "two", group, topic, "concurrently", "tag-1")
    said = re.compile(
        rf"members of group {group} subscribe differently.*client \S+@two\S*: {topic} tags tag-1; "
        rf"client \S+@one\S*: {re.escape(topic)} \*"
    )

    eventually(lambda: said.search(warning.log), PATIENCE_S, what="the broker's log has it")
    eventually(lambda: len(said.findall(java_log())) >= 2, PATIENCE_S, what="both members' clients log it")
    result = our_status(warning.cluster, group)

    assert result.exit_code == 3, result.output
    assert re.search(rf"client \S+@two\S*: {topic} tags tag-1; client \S+@one", result.output)
    java.do("leave", "two")
    eventually(lambda: our_status(warning.cluster, group).exit_code == 0, PATIENCE_S)


@pytest.mark.row("MM-11")
def test_a_java_member_that_is_refused_logs_why_and_the_others_get_every_message(
    strict: Ours, start: Callable[[Cluster], Program], names: tuple[str, str], java_log: Callable[[], str]
) -> None:
    topic, group = names
    create(strict.cluster, topic)
    java = start(strict.cluster)
    java.do("join", "one", group, topic, "concurrently", "*")
    java.do("join", "odd", group, topic, "concurrently", "tag-1")

    refused = re.compile(
        rf"CODE: 16\s+DESC: subscriptions of group {group} differ.*@odd\S*: {topic} tags tag-1"
    )
    eventually(lambda: refused.search(java_log()), PATIENCE_S, what="the refused client logs it")
    java.do("send", "sync", topic, 0, 12)

    def consumed() -> list[tuple[str, int]]:
        return sorted((event["member"], int(event["properties"]["index"])) for event in java.of("consumed"))

    eventually(lambda: len(consumed()) >= 12, PATIENCE_S)
    assert consumed() == [("one", index) for index in range(12)]


@pytest.mark.parametrize("kind", ["apache-4.9", "apache-5"])
def test_consumer_status_finds_the_difference_on_apaches_broker_too(
    kind: str, running: Callable[[str], Cluster], names: tuple[str, str]
) -> None:
    topic, group = names
    cluster = running(kind)
    create(cluster, topic)
    with ExitStack() as closing:
        for instance, tags in (("one", "*"), ("two", "paid")):
            member = PushConsumer(
                group, cluster.name_server, listener=lambda _message: None, instance_name=instance
            )
            member.subscribe(topic, tags)
            closing.enter_context(member)
        # Apache's broker makes the retry topic known at its own pace.
        result = eventually(lambda: _of_two(our_status(cluster, group)), PATIENCE_S)
        assert result.exit_code == 3, result.output
        assert f"{topic} tags paid" in result.output


def _of_two(result: Result) -> Result | None:
    return result if "2 members" in result.output else None


async def test_apaches_mqadmin_sees_whether_members_subscribe_to_the_same(
    warning: Ours, names: tuple[str, str], tmp_path: Path
) -> None:
    """It says so of members that began more than two minutes ago; so these say that they did."""
    topic, group = names
    try:
        classpath = java_classpath("server-4.9")
    except Unavailable as error:
        unavailable(error)
    environment = apache_home(tmp_path)
    (tmp_path / "home/conf/logback_tools.xml").write_text(
        '<configuration><root level="OFF"/></configuration>'
    )
    address = next(iter(warning.cluster.brokers.values()))

    async def mqadmin() -> str:
        process = await asyncio.create_subprocess_exec(
            *(tool("java"), *JVM, f"-Duser.home={tmp_path}", "-cp", classpath),
            "org.apache.rocketmq.tools.command.MQAdminStartup",
            *("consumerStatus", "-n", warning.cluster.name_server, "-g", group),
            cwd=tmp_path,
            env={**os.environ, **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return output.decode()

    async with AsyncExitStack() as closing:
        members = [await closing.enter_async_context(WireClient(address)) for _ in range(2)]

        async def subscribe(*tags: str) -> None:
            for number, (member, wanted) in enumerate(zip(members, tags, strict=True)):
                member.on_push = _running_since_long(topic, wanted)
                body = heartbeat_body(f"client-{number}", group, {topic: wanted})
                await member.ask(RequestCode.HEART_BEAT, None, body)

        await subscribe("a", "b")
        differing = await mqadmin()
        await subscribe("a", "a")
        agreeing = await mqadmin()

    assert "WARN: Different subscription in the same group of consumer!!!" in differing
    assert "client-0" in differing
    assert "Same subscription in the same group of consumer" in agreeing


def _running_since_long(topic: str, tags: str) -> Callable[[Command], Command | None]:
    state = RunningState(
        properties={
            "PROP_CONSUME_TYPE": ConsumeType.CONSUME_PASSIVELY,
            "PROP_CONSUMER_START_TIMESTAMP": "1700000000000",
            "PROP_CONSUMEORDERLY": "false",
        },
        subscriptions=[Subscription(topic=topic, sub_string=tags, tags=[tags], sub_version=1)],
        queues={},
        topics={},
    )

    def answer(push: Command) -> Command | None:
        if push.code != RequestCode.GET_CONSUMER_RUNNING_INFO:
            return None
        return Command(0, body=encode_running_state(state))

    return answer
