"""Celery's workers on Apache's brokers: 4.9 knows no POP and no times, 5.x both if its timers are on."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from celery_stage import CeleryStage
from harness.servers import Cluster

from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(params=["apache-4.9", "apache-5", "apache-5-timers"])
def stage(
    request: pytest.FixtureRequest, running: Callable[[str], Cluster], tmp_path: Path
) -> Iterator[CeleryStage]:
    servers = running(request.param)
    stage = CeleryStage(
        tmp_path,
        f"pyromq://{servers.name_server}",
        visibility_timeout=5,
        topic_prefix=f"{request.node.originalname[:20]}-{time.time_ns()}-",
    )
    yield stage
    stage.close()


def test_tasks_are_done_now_and_later(
    stage: CeleryStage, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10):
        stage.send("add", number)
    with stage.worker(pool="prefork", concurrency=4):
        eventually(lambda: len(stage.notes("did")) >= 10, 90, what="the tasks are done that waited")
        # Only now: how long a worker takes to start is not its matter.
        due = datetime.now(UTC) + timedelta(seconds=5)
        stage.send("add", 100, eta=due)
        for number in range(10, 20):
            stage.send("add", number)
        eventually(lambda: len(stage.notes("did")) >= 21, 90, what="all tasks are done")

    did = {note["did"]: note["at"] for note in stage.notes("did")}
    assert sorted(did) == [*range(20), 100]
    assert len(stage.notes("did")) == 21
    assert did[100] >= due.timestamp()
    kept_by_broker = "apache-5-timers" in request.node.callspec.id
    assert ("is sent at once, and its worker holds it" in caplog.text) is not kept_by_broker


def test_a_killed_workers_task_and_a_broadcast(stage: CeleryStage) -> None:
    with stage.worker("first", pool="prefork") as first:
        stage.send("work", 7)
        eventually(lambda: stage.notes("began"), 90, what="the task began")
        stage.kill(first)
    stage.open_gate()
    with stage.worker("second", SHOP_NEWS="1"):
        eventually(lambda: stage.notes("did"), 180, what="the task is done")
        stage.broadcast("everywhere", "hello")
        eventually(lambda: stage.notes("heard"), 60, what="the worker has heard it")
