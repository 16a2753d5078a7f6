"""A snapshot of a cluster: the answers to all questions, and brokers that refuse or do not answer."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from namesrv_stage import StageBroker

from pyromq import Message, aio
from pyromq.client.aio.asking import Asker
from pyromq.client.observation.observation import Observation
from pyromq.client.observation.snapshot import ClusterSnapshot, Question
from pyromq.client.plans.admin.targets import BrokerPlace
from pyromq.clock import SystemClock
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings, NetSettings
from pyromq.doctor.examination import examine
from pyromq.doctor.survey import Scope
from pyromq.errors import ConnectFailed, NoRoute, RequestTimeout
from pyromq.net.routes import Answer, Request, RequestTable
from pyromq.net.server import Server
from pyromq.testing.cluster import Cluster
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.registration_bodies import KeyValueTable, encode_key_values
from pyromq.wire.bodies.topic_bodies import TopicConfig, TopicConfigTable, encode_topic_table

FIGURES = encode_key_values(KeyValueTable(table={"putTps": "3.5 2.0 1.0"}))
#: Milliseconds after which no answer is silence: enough for the answers of a busy machine.
SILENCE_MS = 3_000
Answering = Callable[[Request[None]], Answer | None]


@asynccontextmanager
async def asking(name_server: str, timeout_ms: int = 10_000) -> AsyncIterator[Asker]:
    asker = Asker(name_server, ClientSettings(mq_client_api_timeout=timeout_ms))
    await asker.start()
    try:
        yield asker
    finally:
        await asker.close()


@asynccontextmanager
async def broker_of(answer: Answering) -> AsyncIterator[BrokerPlace]:
    """Run a broker that answers as the test says; None is no answer."""
    server = Server(RequestTable((), unknown=answer), NetSettings(), clock=SystemClock(), name="broker")
    host, port = await server.start("127.0.0.1", 0)
    try:
        yield BrokerPlace("shop", "broker-x", 0, f"{host}:{port}")
    finally:
        await server.close()


async def fill(cluster: Cluster) -> None:
    """Send eight messages to a topic, of which a group has read one of each queue."""
    async with aio.Producer("senders", cluster.namesrv_address) as producer:
        for _ in range(8):
            await producer.send(Message("orders", b"x"))
    async with aio.PullConsumer("readers", cluster.namesrv_address) as consumer:
        for queue in await consumer.queues("orders"):
            await consumer.pull(queue, 0)
            await consumer.commit(queue, 1)


async def test_a_snapshot_has_the_answers_to_all_questions(cluster: Cluster) -> None:
    await fill(cluster)
    (address,) = cluster.broker_addresses
    async with asking(cluster.namesrv_address) as asker:
        observation = Observation(asker)
        await observation.ask_name_servers()
        await observation.ask_brokers(with_settings=True)
        await observation.ask_replicas(["broker-a"])
        await observation.ask_topics()
        await observation.ask_groups()
        await observation.ask_producers()
        await observation.ask_offsets()
        await observation.ask_lags()
        await observation.ask_topic_names()
        everywhere = {"broker-a"}
        await observation.ask_queues({"orders": everywhere})
        await observation.ask_readers({"orders": everywhere})
        await observation.ask_members({"readers": everywhere, "nobody": everywhere})
        await observation.ask_put_rates(["orders", "never-written"])
    seen = observation.snapshot

    assert [one.address for one in seen.name_servers] == [cluster.namesrv_address]
    assert seen.name_servers[0].addresses("broker-a") == {0: address}
    (broker,) = seen.brokers
    assert (broker.name, broker.address) == ("broker-a", address)
    assert (broker.is_there, broker.makes_groups) == (True, True)
    assert broker.figures["brokerVersionDesc"].startswith("V4_9")
    assert broker.clock is not None
    assert (seen.replicas, seen.fixed_roles) == ({}, {"broker-a"})
    queue_count = seen.topics["orders"]["broker-a"].read_queue_nums
    assert "broker-a" in seen.groups["readers"]
    assert "orders" in seen.topic_names
    offsets = seen.offsets["readers"]["orders"]
    assert set(offsets.values()) == {1}
    assert len(offsets) == queue_count
    assert sum(lag.behind for lag in seen.lags["readers"]) == 8 - queue_count
    assert sum(edge.max_offset for edge in seen.queues.values()) == 8
    assert seen.readers["readers"] == {"broker-a"}
    assert seen.members == {}
    assert seen.put_rates.keys() == {"orders"}
    assert {*seen.answered[Question.MEMBERS]} == {"broker-a"}
    assert (seen.unanswered, seen.silent, seen.skipped) == ({}, {}, {})


async def test_a_snapshot_has_nothing_that_nobody_asked_for(cluster: Cluster) -> None:
    await fill(cluster)
    async with asking(cluster.namesrv_address) as asker:
        observation = Observation(asker)
        await observation.find_brokers()
        await observation.ask_brokers()
    seen = observation.snapshot

    assert seen == ClusterSnapshot(brokers=seen.brokers)
    assert seen.brokers[0].settings == {}


async def test_name_servers_without_a_broker_are_said(cluster: Cluster) -> None:
    await cluster.stop_broker("broker-a")
    async with asking(cluster.namesrv_address) as asker:
        with pytest.raises(NoRoute):
            await Observation(asker).find_brokers()


async def test_a_broker_that_stops_to_answer_is_skipped_for_the_rest(cluster: Cluster) -> None:
    asked: Counter[int] = Counter()

    def answer(request: Request[None]) -> Answer | None:
        asked[request.command.code] += 1
        return Answer(body=FIGURES) if request.command.code == RequestCode.GET_BROKER_RUNTIME_INFO else None

    async with broker_of(answer) as place, asking(cluster.namesrv_address, timeout_ms=SILENCE_MS) as asker:
        observation = Observation(asker)
        observation.use_brokers([place])
        await observation.ask_brokers()
        await observation.ask_topics()
        await observation.ask_groups()
        await observation.ask_queues({f"topic-{at}": {"broker-x"} for at in range(100)})
    seen = observation.snapshot

    assert asked == {RequestCode.GET_BROKER_RUNTIME_INFO: 1, RequestCode.GET_ALL_TOPIC_CONFIG: 1}
    (broker,) = seen.brokers
    assert (broker.error, broker.newest_rate("putTps")) == (None, 3.5)
    assert isinstance(seen.silent[place.address], RequestTimeout)
    assert list(seen.unanswered) == [(Question.TOPICS, place.address, "")]
    assert seen.skipped == {place.address: 101}
    assert seen.failure(Question.TOPICS, broker) == f"broker-x: {seen.silent[place.address]}"
    skipped = seen.failure(Question.QUEUES, broker, "topic-7")
    assert skipped == f"broker-x does not answer: {seen.silent[place.address]}"


@pytest.mark.parametrize(("asks_refusing", "topics"), [(False, set()), (True, {"orders"})])
async def test_a_broker_that_refuses_its_figures_is_asked_on_if_the_reader_wants_it(
    cluster: Cluster, asks_refusing: bool, topics: set[str]
) -> None:
    def answer(request: Request[None]) -> Answer:
        if request.command.code == RequestCode.GET_ALL_TOPIC_CONFIG:
            table = TopicConfigTable(topic_config_table={"orders": TopicConfig(topic_name="orders")})
            return Answer(body=encode_topic_table(table))
        return Answer(ResponseCode.SYSTEM_ERROR, "not yet")

    async with broker_of(answer) as place, asking(cluster.namesrv_address) as asker:
        observation = Observation(asker, asks_refusing=asks_refusing)
        observation.use_brokers([place])
        await observation.ask_brokers()
        await observation.ask_topics()
    seen = observation.snapshot

    (broker,) = seen.brokers
    assert (broker.is_there, broker.is_unreachable) == (True, False)
    assert "not yet" in (broker.failure or "")
    assert (set(seen.topics), seen.silent) == (topics, {})


async def test_one_refusal_does_not_silence_a_broker(cluster: Cluster) -> None:
    def answer(request: Request[None]) -> Answer:
        code = request.command.code
        if code == RequestCode.GET_ALL_TOPIC_CONFIG:
            return Answer(ResponseCode.NO_PERMISSION, "no")
        return Answer(body=FIGURES if code == RequestCode.GET_BROKER_RUNTIME_INFO else b"{}")

    async with broker_of(answer) as place, asking(cluster.namesrv_address) as asker:
        observation = Observation(asker)
        observation.use_brokers([place])
        await observation.ask_brokers()
        await observation.ask_topics()
        await observation.ask_groups()
    seen = observation.snapshot

    assert list(seen.unanswered) == [(Question.TOPICS, place.address, "")]
    assert {question for question, names in seen.answered.items() if names} == {Question.GROUPS}
    assert (seen.silent, seen.skipped) == ({}, {})


async def test_a_broker_that_is_gone_is_not_asked_for_its_topics(tmp_path: Path) -> None:
    async with Cluster(2, data_dir=tmp_path) as cluster, asking(cluster.namesrv_address) as asker:
        await fill(cluster)
        gone = cluster.brokers["broker-b"].address
        await cluster.brokers["broker-b"].close(unregister=False)
        observation = Observation(asker)
        observation.use_brokers([BrokerPlace("shop", "broker-b", 0, gone)])
        await observation.ask_brokers()
        await observation.ask_topics()
    seen = observation.snapshot

    (broker,) = seen.brokers
    assert isinstance(broker.error, ConnectFailed)
    assert (broker.is_unreachable, broker.is_connected, broker.is_there) == (True, False, False)
    assert (seen.topics, seen.unanswered, list(seen.silent)) == ({}, {}, [gone])


async def test_the_doctor_tells_once_of_a_broker_that_stops_to_answer(cluster: Cluster) -> None:
    def answer(request: Request[None]) -> Answer | None:
        if request.command.code == RequestCode.GET_BROKER_RUNTIME_INFO:
            return Answer(body=FIGURES)
        return Answer() if request.command.code == RequestCode.GET_BROKER_CONFIG else None

    name_server = cluster.namesrv_address
    async with (
        broker_of(answer) as place,
        asking(name_server, timeout_ms=SILENCE_MS) as asker,
        WireClient(name_server) as client,
    ):
        await StageBroker(client, "broker-x", port=int(place.address.rpartition(":")[2])).register()
        report = await examine(asker, Scope(groups=("billing",), watch_s=0))

    told = [sentence for sentence in report.survey.could_not if "broker-x" in sentence]
    assert len(told) == 2
    assert told[0].startswith("list the topics of broker-x: ")
    assert told[1] == "ask broker-x 4 more questions: it did not answer the one before"
