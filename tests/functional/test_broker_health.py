"""What the health of a broker and of a name server says when something is wrong with them."""

import asyncio
import json
from pathlib import Path

import pytest
from http_answers import fetch
from kinds_stage import ManualStage, running_stage
from namesrv_stage import name_server
from retention_stage import retention_stage
from slave_stage import running_pair
from staged_files import StagedFiles

from pyromq.broker.broker import Broker
from pyromq.broker.durability.acknowledgement import Lease
from pyromq.broker.replication.standing import Standing
from pyromq.config.choices import MetricsExporterType
from pyromq.net.process_health import HealthCheck
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually


def failing(broker: Broker) -> dict[str, str]:
    """The checks that fail, but for the name server, which these brokers have not."""
    return {one.name: one.why for one in broker.health() if one.why is not None and one.name != "serving"}


def dead(broker: Broker) -> list[str]:
    return [one.name for one in broker.health() if one.why is not None and one.needs_restart]


async def test_a_broker_that_is_well_passes_all_checks(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster:
        broker = cluster.brokers["broker-a"]
        checks = [HealthCheck("store", needs_restart=True), *map(HealthCheck, ("serving", "disk", "lease"))]
        assert broker.health() == [*checks, HealthCheck("replication")]
        await cluster.stop_broker("broker-a")
        [only] = broker.health()
        assert only == HealthCheck("serving", "broker-a starts, or stops")


async def test_a_broker_that_no_name_server_knows_is_not_ready(tmp_path: Path) -> None:
    async with running_stage(tmp_path) as stage:
        causes = {one.name: one.why for one in stage.broker.health()}
    assert causes["serving"] == "it has no name server (namesrvAddr), so clients cannot find it"


async def test_a_name_server_that_is_away_is_named(tmp_path: Path) -> None:
    async with name_server() as away:
        address = away.address
    async with running_stage(tmp_path, namesrv_addr=address) as stage:
        causes = {one.name: one.why for one in stage.broker.health()}
    assert causes["serving"] == f"no name server took its last registration: {address}"


async def test_a_full_disk_is_not_ready_and_lives(tmp_path: Path) -> None:
    async with retention_stage(tmp_path) as stage:
        stage.files.percent_used = 91
        await stage.look()
        assert "91%" in failing(stage.stage.broker)["disk"]
        assert not dead(stage.stage.broker)
        stage.files.percent_used = 20
        await stage.look()
        assert not failing(stage.stage.broker)


async def test_a_poisoned_store_needs_a_restart(tmp_path: Path) -> None:
    files = StagedFiles()
    async with running_stage(tmp_path, files=files, flush_disk_type="SYNC_FLUSH") as stage:
        files.sync_error = "Input/output error"
        await stage.connect().send("orders")
        assert "Input/output error" in failing(stage.broker)["store"]
        assert dead(stage.broker) == ["store"]
        files.sync_error = None
        await stage.restart()
        assert not failing(stage.broker)


async def test_a_lease_that_is_over_is_not_ready(tmp_path: Path) -> None:
    clock = ManualClock()
    lease = Lease(clock.monotonic, clock.monotonic() + 10)
    stage = ManualStage(tmp_path, clock, standing=Standing(lease=lease))
    await stage.start()
    try:
        assert not failing(stage.broker)
        clock.advance(10_000)
        assert "etcd" in failing(stage.broker)["lease"]
        assert not dead(stage.broker)
    finally:
        await stage.close()


async def test_a_synchronous_master_waits_for_its_slave(tmp_path: Path) -> None:
    async with running_stage(tmp_path, broker_role="SYNC_MASTER") as stage:
        assert "no slave is connected" in failing(stage.broker)["replication"]


async def test_a_slave_follows_its_master(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await aeventually(lambda: not failing(pair.slave.broker))
        await pair.stop(pair.master)
        await aeventually(lambda: "replication" in failing(pair.slave.broker))
        assert "is not copied" in failing(pair.slave.broker)["replication"]
        assert not dead(pair.slave.broker)


async def test_a_slave_without_any_master_says_so(tmp_path: Path) -> None:
    async with running_stage(tmp_path, broker_role="SLAVE", broker_id=1) as stage:
        assert "no master is known" in failing(stage.broker)["replication"]


@pytest.mark.parametrize("path", ["/health/ready", "/health/live", "/metrics", "/"])
async def test_the_port_of_the_metrics_has_both(tmp_path: Path, path: str) -> None:
    async with Cluster(
        data_dir=tmp_path, metrics_exporter_type="PROM", metrics_prom_exporter_port=0
    ) as cluster:
        page = cluster.brokers["broker-a"].metrics
        assert page is not None
        _, text = await asyncio.to_thread(fetch, f"http://127.0.0.1:{page.port}{path}")
    if path.startswith("/health"):
        assert json.loads(text)[path.rpartition("/")[2]] is True
    else:
        assert "pyromq_build_info" in text


async def test_a_name_server_is_ready_while_it_serves() -> None:
    metrics = {"metrics_exporter_type": MetricsExporterType.PROM, "metrics_prom_exporter_port": 0}
    async with name_server(**metrics) as server:
        assert server.health() == [HealthCheck("name_server")]
        assert server.metrics is not None
        url = f"http://127.0.0.1:{server.metrics.port}/health/ready"
        assert (await asyncio.to_thread(fetch, url))[0] == 200
    assert server.health()[0].why is not None
