"""What `pyromq doctor` finds about servers: name servers, addresses, disks, clocks."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from doctor_stage import DoctorStage
from kinds_stage import running_stage
from namesrv_stage import StageBroker, name_server
from scale_stage import joining_broker, joining_process, silent_broker
from staged_files import StagedFiles

from pyromq.broker.broker import Broker
from pyromq.client.identity import local_address
from pyromq.codes import ResponseCode
from pyromq.doctor.checks.address_check import is_loopback
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.wire_client import WireClient

HOUR_MS = 3_600_000
#: Reserved for documentation: nobody is there.
NOWHERE = "192.0.2.1"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(data_dir=tmp_path / "cluster", files=StagedFiles()) as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: Cluster) -> DoctorStage:
    return DoctorStage(cluster.namesrv_address)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# Name servers --------------------------------------------------------------------------------------------


async def test_a_silent_name_server_among_several_is_a_warning(cluster: Cluster) -> None:
    async with name_server() as other:
        gone = f"127.0.0.1:{other.port}"

    examined = await DoctorStage(f"{cluster.namesrv_address};{gone}").aexamine("--only", "name-servers")

    assert examined.status == 1
    finding = examined.one(f"name server {gone}")
    assert (finding["check"], finding["severity"]) == ("name-servers", "warning")
    assert f"name server {gone} does not answer" in finding["message"]
    assert f"pyromq namesrv --port {gone.rpartition(':')[2]}" in finding["do"]


async def test_name_servers_that_disagree_about_a_broker_are_a_problem(cluster: Cluster) -> None:
    async with name_server() as other, WireClient(f"127.0.0.1:{other.port}") as client:
        ignorant = f"127.0.0.1:{other.port}"
        both = DoctorStage(f"{cluster.namesrv_address};{ignorant}")

        examined = await both.aexamine("--only", "name-servers")

        finding = examined.one("broker-a")
        assert (examined.status, finding["severity"]) == (1, "problem")
        assert f"{ignorant} does not know it" in finding["message"]
        assert f"{cluster.namesrv_address} says {cluster.broker_addresses[0]}" in finding["message"]

        port = int(cluster.broker_addresses[0].rpartition(":")[2])
        await StageBroker(client, port=port).register()
        assert (await both.aexamine("--only", "name-servers")).found == []


# Addresses -----------------------------------------------------------------------------------------------


async def test_a_cluster_without_a_broker_is_a_problem(cluster: Cluster, stage: DoctorStage) -> None:
    await cluster.stop_broker("broker-a")

    examined = await stage.aexamine()

    assert (examined.status, examined.severities) == (1, {"the cluster": "problem"})
    assert f"pyromq broker -n {cluster.namesrv_address}" in examined.one("the cluster")["do"]


async def test_a_broker_that_tells_clients_a_wrong_address_is_a_problem_until_it_tells_the_right_one(
    cluster: Cluster, stage: DoctorStage, tmp_path: Path
) -> None:
    told = {"broker_ip1": "127.0.0.2", "bind_address": "127.0.0.1"}
    async with joining_broker(cluster.namesrv_address, tmp_path, "broker-b", **told) as wrong:
        examined = await stage.aexamine("--only", "addresses")

    finding = examined.one("broker-b")
    assert (examined.status, examined.severities) == (1, {"broker-b": "problem"})
    address = f"127.0.0.2:{wrong.port}"
    assert "cannot be reached where the name servers say that it is: " in finding["message"]
    assert address in finding["message"]
    assert "add --advertise with it to the command that starts it" in finding["do"]

    async with joining_broker(cluster.namesrv_address, tmp_path, "broker-b", broker_ip1="127.0.0.1"):
        assert (await stage.aexamine("--only", "addresses")).found == []


async def test_a_broker_that_takes_connections_and_says_nothing_is_a_problem(
    cluster: Cluster, stage: DoctorStage
) -> None:
    async with silent_broker(cluster.namesrv_address):
        examined = await stage.aexamine("--only", "addresses")

    assert examined.severities == {"broker-silent": "problem"}
    assert (
        "does not answer where the name servers say that it is: " in examined.one("broker-silent")["message"]
    )
    assert examined.one("broker-silent")["do"].startswith("it takes connections: ")


async def test_a_slave_that_cannot_be_reached_is_a_warning(cluster: Cluster, stage: DoctorStage) -> None:
    async with WireClient(cluster.namesrv_address) as client:
        await StageBroker(client, "broker-a", 1, port=1).register()

        examined = await stage.aexamine("--only", "addresses")

    assert examined.severities == {"broker-a:1": "warning"}
    assert "(slave 1)" in examined.one("broker-a:1")["message"]


async def test_loopback_addresses_are_one_warning_where_others_are_on_the_network(
    cluster: Cluster, stage: DoctorStage, tmp_path: Path
) -> None:
    ip = local_address()
    if is_loopback(f"{ip}:1"):
        pytest.skip("this machine is on no network")
    async with (
        joining_broker(
            cluster.namesrv_address, tmp_path / "far", "broker-far", broker_ip1=ip, bind_address="0.0.0.0"
        ) as far,
        joining_broker(cluster.namesrv_address, tmp_path / "near", "broker-near"),
    ):
        examined = await stage.aexamine("--only", "addresses")

    assert examined.severities == {"2 brokers": "warning"}
    finding = examined.one("2 brokers")
    assert f"an address that leads every machine to itself, while {ip}:{far.port} is" in finding["message"]
    assert "have broker-a, broker-near listen for other machines" in finding["do"]


async def test_an_address_that_nobody_reaches_makes_no_other_broker_wrong(
    cluster: Cluster, stage: DoctorStage, tmp_path: Path
) -> None:
    told = {"broker_ip1": NOWHERE, "bind_address": "0.0.0.0"}
    async with joining_broker(cluster.namesrv_address, tmp_path, "broker-b", **told) as far:
        examined = await stage.aexamine("--only", "addresses")

    assert examined.severities == {"broker-b": "problem"}
    assert f"{NOWHERE}:{far.port}" in examined.one("broker-b")["message"]


async def test_an_address_at_which_another_broker_answers_is_a_problem(
    cluster: Cluster, stage: DoctorStage
) -> None:
    port = int(cluster.broker_addresses[0].rpartition(":")[2])
    async with WireClient(cluster.namesrv_address) as client:
        await StageBroker(client, "broker-b", port=port).register()

        examined = await stage.aexamine("--only", "addresses")

    finding = examined.one("broker-b")
    assert finding["severity"] == "problem"
    assert "where the name servers say that broker-b is, answers broker-a" in finding["message"]


# Disks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percent", "severity", "words"),
    [
        (72, "note", "the mark is 75 % (diskMaxUsedSpaceRatio)"),
        (80, "warning", "the mark is 75 % (diskMaxUsedSpaceRatio)"),
        (88, "problem", "over 85 % messages go before their time (diskSpaceCleanForciblyRatio)"),
        (95, "problem", "over 90 % it takes no messages (diskSpaceWarningLevelRatio)"),
    ],
)
async def test_a_disk_that_is_nearly_full_is_found(
    tmp_path: Path, percent: int, severity: str, words: str
) -> None:
    files = StagedFiles()
    async with Cluster(data_dir=tmp_path, files=files) as cluster:
        stage = DoctorStage(cluster.namesrv_address)
        files.percent_used = percent

        examined = await stage.aexamine("--only", "disks")

        finding = examined.one("broker-a")
        assert (finding["check"], finding["severity"]) == ("disks", severity)
        assert examined.status == (0 if severity == "note" else 1)
        assert f"is {percent} % full" in finding["message"]
        assert words in finding["message"]
        await stage.afollow(finding)
        assert (await stage.aexamine("--only", "disks")).found == [
            finding | {"do": finding["do"].replace("72 hours", "36 hours").replace("Time 36", "Time 18")}
        ]
        files.percent_used = 40
        assert (await stage.aexamine("--only", "disks")).found == []


async def test_the_marks_are_the_brokers_own(cluster: Cluster, stage: DoctorStage) -> None:
    await stage.afollow({"do": f"pyromq cluster set diskMaxUsedSpaceRatio 10 -n {cluster.namesrv_address}"})

    finding = (await stage.aexamine("--only", "disks")).one("broker-a")

    assert finding["severity"] == "note"
    assert finding["facts"]["marks"]["diskMaxUsedSpaceRatio"] == 10


async def test_a_store_that_failed_is_a_problem(tmp_path: Path) -> None:
    files = StagedFiles()
    async with name_server(kv_config_path=str(tmp_path / "kv.json")) as server:
        address = f"127.0.0.1:{server.port}"
        async with running_stage(
            tmp_path, files=files, flush_disk_type="SYNC_FLUSH", namesrv_addr=address
        ) as broker:
            client = broker.connect()
            files.sync_error = "Input/output error"
            assert (await client.send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE

            examined = await DoctorStage(address).aexamine("--only", "disks")

    (finding,) = examined.found
    assert (examined.status, finding["severity"]) == (1, "problem")
    assert "writes nothing any more" in finding["message"]
    assert "Input/output error" in finding["message"]
    assert f"pyromq store verify {tmp_path}" in finding["do"]


# Clocks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ahead_ms", "severity", "words"),
    [
        # The clock stands still, and a start may take a while.
        (50_000, "warning", "ahead of"),
        (3 * HOUR_MS, "problem", "3 hours ahead of"),
        (-10_000, "warning", "behind"),
    ],
)
async def test_the_clock_of_a_lonely_broker_is_compared_with_this_machines(
    tmp_path: Path, ahead_ms: int, severity: str, words: str
) -> None:
    async with Cluster(data_dir=tmp_path, clock=ManualClock(now_ms() + ahead_ms)) as cluster:
        examined = await DoctorStage(cluster.namesrv_address).aexamine("--only", "clocks")

    finding = examined.one("broker-a")
    assert (examined.status, finding["check"], finding["severity"]) == (1, "clocks", severity)
    assert words in finding["message"]
    assert finding["message"].endswith("that of this machine")


async def test_the_one_clock_that_is_apart_from_the_others_is_found(
    cluster: Cluster, stage: DoctorStage, tmp_path: Path
) -> None:
    process = joining_process(cluster.namesrv_address, tmp_path, "broker-b")
    late = Broker(process, clock=ManualClock(now_ms() - HOUR_MS))
    await late.start()
    try:
        examined = await stage.aexamine("--only", "clocks")
    finally:
        await late.close()

    assert examined.severities == {"broker-b": "problem"}
    assert "behind that of most others" in examined.one("broker-b")["message"]


@asynccontextmanager
async def brokers_of_another_time(tmp_path: Path) -> AsyncIterator[str]:
    async with Cluster(2, data_dir=tmp_path, clock=ManualClock(now_ms() + HOUR_MS)) as cluster:
        yield cluster.namesrv_address


async def test_when_all_brokers_agree_it_is_this_machine_that_is_wrong(tmp_path: Path) -> None:
    async with brokers_of_another_time(tmp_path) as address:
        examined = await DoctorStage(address).aexamine("--only", "clocks")

    assert examined.severities == {"this machine": "warning"}
    assert (
        "the clock of this machine is 60 minutes behind that of most others" in examined.found[0]["message"]
    )
