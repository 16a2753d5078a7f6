"""How many brokers `pyromq up` starts, with which names, ports, folders and roles."""

import dataclasses
from pathlib import Path

import pytest

from pyromq.cli.servers.local_cluster import (
    AUTO,
    BROKERS_MAX,
    Inherited,
    Shape,
    broker_arguments,
    broker_count,
    check_shape,
    plan_replicas,
)
from pyromq.config.choices import BrokerRole, MetricsExporterType
from pyromq.config.settings import BrokerSettings, UpProcess
from pyromq.errors import ConfigError

DATA = Path("/data")


def up(**changes: object) -> UpProcess:
    return UpProcess(broker=dataclasses.replace(BrokerSettings(), **changes))  # type: ignore[arg-type]


def assignments(arguments: list[str]) -> list[str]:
    return [arguments[at + 1] for at, word in enumerate(arguments) if word == "--set"]


def test_each_broker_has_a_name_a_port_and_a_folder_of_its_own() -> None:
    replicas = plan_replicas(Shape(brokers=2, replicas=2), up(), DATA)

    assert [(one.broker_name, one.number, one.port, one.folder) for one in replicas] == [
        ("broker-a", 0, 10911, DATA / "broker-a"),
        ("broker-a", 1, 10921, DATA / "broker-a-1"),
        ("broker-b", 0, 10931, DATA / "broker-b"),
        ("broker-b", 1, 10941, DATA / "broker-b-1"),
    ]


def test_each_broker_serves_its_metrics_on_a_port_of_its_own() -> None:
    process = up(metrics_exporter_type=MetricsExporterType.PROM)

    given = [
        assignments(broker_arguments(one, process.broker, Shape(), Inherited(), name_server="n:1"))
        for one in plan_replicas(Shape(brokers=2), process, DATA)
    ]

    assert "metricsPromExporterPort=5557" in given[0]
    assert "metricsPromExporterPort=5558" in given[1]


def test_auto_is_a_broker_for_each_core_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 3, 5})
    assert broker_count(AUTO) == 3
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(200)))
    assert broker_count(AUTO) == BROKERS_MAX
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert broker_count(AUTO) == 2


@pytest.mark.parametrize("text", ["0", "27", "-1", "many", "", "²"])
def test_a_number_of_brokers_that_cannot_be_is_refused_by_its_option(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--brokers {text}: say a number from 1 to 26, or auto"):
        broker_count(text)


def test_brokers_that_share_topics_are_told_so_and_the_user_has_the_last_word() -> None:
    shape, process = Shape(brokers=2, shares_topics=True), up()
    inherited = Inherited(assignments=("autoCreateOnAll=false",))
    (first, _) = plan_replicas(shape, process, DATA)

    given = assignments(broker_arguments(first, process.broker, shape, inherited, name_server="n:1"))
    alone = assignments(broker_arguments(first, process.broker, Shape(), Inherited(), name_server="n:1"))

    assert "copyTopicsOnJoin=true" in given
    assert given.index("autoCreateOnAll=true") < given.index("autoCreateOnAll=false")
    assert not [one for one in alone if one.startswith(("autoCreate", "copyTopics"))]


@pytest.mark.row("HA-01")
def test_the_first_replica_is_master_and_the_others_are_slaves() -> None:
    asynchronous = plan_replicas(Shape(replicas=3), up(), DATA)
    synchronous = plan_replicas(Shape(replicas=2, is_sync=True), up(), DATA)

    assert [one.role for one in asynchronous] == [
        BrokerRole.ASYNC_MASTER,
        BrokerRole.SLAVE,
        BrokerRole.SLAVE,
    ]
    assert [one.role for one in synchronous] == [BrokerRole.SYNC_MASTER, BrokerRole.SLAVE]


def test_with_failover_all_are_told_the_same_and_none_has_a_number() -> None:
    shape = Shape(replicas=2, is_sync=True, failover="etcd://127.0.0.1:2379")
    first, second = (
        assignments(broker_arguments(one, BrokerSettings(), shape, Inherited(), name_server="n:1"))
        for one in plan_replicas(shape, up(), DATA)
    )

    assert "failover=etcd://127.0.0.1:2379" in first
    assert "brokerRole=SYNC_MASTER" in second
    assert not [text for text in first + second if text.startswith("brokerId=")]
    assert set(first) ^ set(second) == {
        f"storePathRootDir={DATA / 'broker-a'}",
        f"storePathRootDir={DATA / 'broker-a-1'}",
        "grpcServerPort=8081",
        "grpcServerPort=8082",
    }


def test_a_name_that_was_given_is_kept_and_told_apart_by_letters() -> None:
    one = plan_replicas(Shape(replicas=2), up(broker_name="pay"), DATA)
    two = plan_replicas(Shape(brokers=2), up(broker_name="pay"), DATA)

    assert [replica.broker_name for replica in one] == ["pay", "pay"]
    assert [replica.broker_name for replica in two] == ["pay-a", "pay-b"]


def test_without_a_port_each_broker_finds_one() -> None:
    assert {one.port for one in plan_replicas(Shape(brokers=3), up(listen_port=0), DATA)} == {0}


def test_a_broker_gets_the_users_settings_before_its_own() -> None:
    process = up(broker_ip1="10.0.0.5", broker_cluster_name="Test")
    (replica,) = plan_replicas(Shape(), process, DATA)

    arguments = broker_arguments(
        replica,
        process.broker,
        Shape(),
        Inherited(config=Path("/etc/broker.conf"), assignments=("fileReservedTime=48", "brokerName=x")),
        name_server="127.0.0.1:9876",
    )

    assert arguments[:3] == ["broker", "-n", "127.0.0.1:9876"]
    assert arguments[arguments.index("--advertise") + 1] == "10.0.0.5"
    assert arguments[arguments.index("-c") + 1] == "/etc/broker.conf"
    given = assignments(arguments)
    assert given.index("fileReservedTime=48") < given.index("brokerName=broker-a")
    assert given.index("brokerName=x") < given.index("brokerName=broker-a")
    assert {"brokerClusterName=Test", "brokerId=0", "haListenPort=0"} <= set(given)


def test_clusters_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="--replicas 2"):
        check_shape(Shape(brokers=2, is_sync=True), BrokerSettings())
    with pytest.raises(ConfigError, match="brokerId"):
        check_shape(Shape(brokers=2), dataclasses.replace(BrokerSettings(), broker_id=1))
    with pytest.raises(ConfigError, match="65540"):
        plan_replicas(Shape(brokers=2), up(listen_port=65530), DATA)
