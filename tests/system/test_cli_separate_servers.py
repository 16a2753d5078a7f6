import json
import signal
from pathlib import Path
from typing import Any

import pytest

from pyromq import Admin, PyroError
from pyromq.testing.waiting import eventually

DEADLINE_S = 60.0


def records(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture
def name_server(shell: Any, tmp_path: Path) -> str:
    address: str = shell.serve("namesrv", "-p", "0", "--data", str(tmp_path / "ns")).ready()["namesrv"]
    return address


def brokers_of(name_server: str, topic: str) -> set[str]:
    """The brokers that a topic has a route to."""
    with Admin(name_server) as admin:
        try:
            return {part.broker_name for part in admin.route(topic).queue_datas}
        except PyroError:
            return set()


def test_a_topic_spreads_over_two_brokers_of_separate_processes(
    shell: Any, tmp_path: Path, name_server: str
) -> None:
    for name in ("broker-a", "broker-b"):
        data = ("--port", "0", "--data", str(tmp_path / "data"), "--set", f"brokerName={name}")
        shell.serve("broker", "-n", name_server, *data).ready()

    sent = records(shell.output_of("produce", "-n", name_server, "wide", "x", "--count", "64", "--json"))
    # Each broker tells the name server by itself that it has the topic now.
    eventually(lambda: brokers_of(name_server, "wide") == {"broker-a", "broker-b"}, DEADLINE_S)
    read = records(shell.output_of("consume", "-n", name_server, "wide", "--json"))

    assert {record["broker"] for record in sent} == {"broker-a", "broker-b"}
    assert sorted(r["message_id"] for r in read) == sorted(r["message_id"] for r in sent)


def test_apaches_own_file_starts_a_broker(shell: Any, tmp_path: Path, name_server: str) -> None:
    conf = tmp_path / "broker-a.properties"
    conf.write_text(
        "brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\ndeleteWhen=04\n"
        "fileReservedTime=48\nbrokerRole=ASYNC_MASTER\nflushDiskType=ASYNC_FLUSH\nlistenPort=0\n"
        f"storePathRootDir={tmp_path / 'store'}\nsendMessageThreadPoolNums=16\n"
    )

    broker = shell.serve("broker", "-c", str(conf), "-n", name_server)

    assert broker.ready()["data"] == str(tmp_path / "store")
    assert "sendMessageThreadPoolNums=16 has no effect: one loop serves every request" in broker.err
    assert shell.output_of("produce", "-n", name_server, "t", "x").startswith("SEND_OK")


def test_name_server_and_broker_stop_in_order(shell: Any, tmp_path: Path) -> None:
    namesrv = shell.serve("namesrv", "-p", "0", "--data", str(tmp_path / "ns"))
    broker = shell.serve(
        "broker", "-n", namesrv.ready()["namesrv"], "--port", "0", "--data", str(tmp_path / "data")
    )
    broker.ready()

    # Where metrics are, their address is in the line that says so.
    assert "metrics at" not in broker.out + namesrv.out
    assert broker.stop(signal.SIGTERM) == 0
    assert namesrv.stop(signal.SIGINT) == 0
    assert "Traceback" not in broker.err + namesrv.err


def test_the_environment_names_the_name_servers(shell: Any, tmp_path: Path, name_server: str) -> None:
    shell.environment["NAMESRV_ADDR"] = name_server
    shell.serve("broker", "--port", "0", "--data", str(tmp_path / "data")).ready()

    assert shell.output_of("produce", "t", "x").startswith("SEND_OK")


def test_each_server_says_where_its_metrics_are(shell: Any, tmp_path: Path) -> None:
    observed = ("--set", "metricsExporterType=PROM", "--set", "metricsPromExporterPort=0")
    namesrv = shell.serve("namesrv", "-p", "0", "--data", str(tmp_path / "ns"), *observed)
    address = namesrv.ready()["namesrv"]
    broker = shell.serve("broker", "-n", address, "--port", "0", "--data", str(tmp_path / "data"), *observed)

    for server in (namesrv, broker):
        assert f", metrics at {server.ready()['metrics']}" in server.out
