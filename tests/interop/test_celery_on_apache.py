"""Celery's workers on Apache's brokers: 4.9 knows no POP and no times, 5.x knows both."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from celery_stage import CeleryStage
from harness.servers import Cluster

from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(params=["apache-4.9", "apache-5"])
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


def test_tasks_are_done_now_and_later(stage: CeleryStage) -> None:
    due = datetime.now(UTC) + timedelta(seconds=8)
    stage.send("add", 100, eta=due)
    for number in range(20):
        stage.send("add", number)
    with stage.worker(pool="prefork", concurrency=4):
        eventually(lambda: len(stage.notes("did")) >= 21, 40, what="all tasks are done")

    did = stage.notes("did")
    assert sorted(note["did"] for note in did) == [*range(20), 100]
    assert did[-1]["did"] == 100
    assert did[-1]["at"] >= due.timestamp()


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
