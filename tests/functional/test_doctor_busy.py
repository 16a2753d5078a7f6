"""What `pyromq doctor` finds about brokers that are busy, and what follows from doing as it says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from doctor_stage import DoctorStage
from staged_files import StagedFiles

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import send_v2_fields
from pyromq.testing.wire_client import WireClient

#: RocketMQ's limits: only the clock of the test makes this broker late.
DEFAULTS = {"wait_time_mills_in_send_queue": 200, "os_page_cache_busy_time_out_mills": 1_000}


@asynccontextmanager
async def slow_disk(folder: Path, write_ms: int) -> AsyncIterator[Cluster]:
    """Run a cluster whose disk takes so long for a write, while more than one client sends."""
    files, clock = StagedFiles(), ManualClock()
    async with Cluster(data_dir=folder, files=files, clock=clock, **DEFAULTS) as cluster:
        address = cluster.brokers["broker-a"].address
        async with WireClient(address) as first, WireClient(address) as second:

            def send(client: WireClient) -> "asyncio.Future[object]":
                return client.begin(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"x")

            await send(first)
            files.before_log_write = lambda: clock.advance(write_ms)
            answers = await asyncio.gather(send(first), send(second))
            files.before_log_write = lambda: None
            codes = sorted(answer.code for answer in answers)  # type: ignore[attr-defined]
            assert codes == [ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY]
        yield cluster


@pytest.mark.row("FF-07")
@pytest.mark.parametrize(
    ("write_ms", "reason", "setting"),
    [
        (1_200, "page cache busy", "osPageCacheBusyTimeOutMills 2000"),
        (300, "loop late", "waitTimeMillsInSendQueue 400"),
    ],
)
async def test_a_broker_that_refuses_sends_is_a_problem_with_its_cause(
    tmp_path: Path, write_ms: int, reason: str, setting: str
) -> None:
    async with slow_disk(tmp_path, write_ms) as cluster:
        stage = DoctorStage(cluster.namesrv_address)
        examined = await stage.aexamine("--only", "busy")
        assert examined.status == 1
        (finding,) = examined.found
        assert (finding["check"], finding["severity"]) == ("busy", "problem")
        assert f"refused 1 request since it was started with SYSTEM_BUSY: {reason}" in finding["message"]
        assert finding["facts"]["reason"] == reason
        assert f"pyromq cluster set {setting}" in finding["do"]
        await stage.afollow(finding)

        async with WireClient(cluster.brokers["broker-a"].address) as client:
            answer = await client.ask(RequestCode.GET_BROKER_CONFIG)
        assert setting.replace(" ", "=") in answer.body.decode()


async def test_a_broker_that_takes_everything_is_not_found(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster:
        examined = await DoctorStage(cluster.namesrv_address).aexamine("--only", "busy")
    assert (examined.status, examined.found) == (0, [])
