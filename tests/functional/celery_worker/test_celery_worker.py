"""Celery's own workers on a cluster: what they do with tasks, broadcasts, and the loss of a worker."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from celery_stage import CeleryStage

from pyromq import Admin
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually


@pytest.fixture
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: ThreadCluster, tmp_path: Path) -> Iterator[CeleryStage]:
    stage = CeleryStage(tmp_path, f"pyromq://{cluster.namesrv_address}", visibility_timeout=5)
    yield stage
    stage.close()


def done(stage: CeleryStage) -> list[int]:
    return [note["did"] for note in stage.notes("did")]


@pytest.mark.parametrize("pool", ["solo", "prefork"])
def test_a_hundred_tasks_are_done_once_each(stage: CeleryStage, pool: str) -> None:
    for number in range(50):
        stage.send("add", number)
    with stage.worker(pool=pool, concurrency=2):
        eventually(lambda: len(done(stage)) >= 50, 60, what="the first tasks are done")
        for number in range(50, 100):
            stage.send("add", number)
        eventually(lambda: len(done(stage)) >= 100, 60, what="all tasks are done")

    assert sorted(done(stage)) == list(range(100))


def test_a_late_acknowledged_task_of_a_killed_worker_is_done_by_another(stage: CeleryStage) -> None:
    with stage.worker("first", pool="prefork") as first:
        stage.send("work", 7)
        eventually(lambda: stage.notes("began"), 60, what="the task began")
        stage.kill(first)
    stage.open_gate()
    with stage.worker("second"):
        eventually(lambda: done(stage), 60, what="the task is done")

    assert done(stage) == [7]
    assert [note["redelivered"] for note in stage.notes("began")] == [False, True]


def test_a_task_that_takes_longer_than_the_visibility_timeout_is_done_once(stage: CeleryStage) -> None:
    with stage.worker("first", pool="prefork"), stage.worker("second", pool="prefork"):
        stage.send("work", 7)
        eventually(lambda: stage.notes("began"), 60, what="the task began")
        began = time.monotonic()
        eventually(
            lambda: time.monotonic() - began > 8, 30, what="more than the visibility timeout has passed"
        )
        stage.open_gate()
        eventually(lambda: done(stage), 60, what="the task is done")

    assert len(stage.notes("began")) == 1


def test_a_task_with_an_eta_waits_at_the_broker_and_not_in_a_worker(
    stage: CeleryStage, cluster: ThreadCluster
) -> None:
    due = datetime.now(UTC) + timedelta(seconds=6)
    stage.send("add", 1, eta=due)
    with Admin(cluster.namesrv_address) as admin:
        assert sum(admin.count_waiting().values()) == 1
    with stage.worker():
        eventually(lambda: "ready" in stage.log(), 60, what="the worker is ready")
        stage.send("add", 2)
        eventually(lambda: done(stage) == [2, 1], 60, what="both are done")

    assert stage.notes("did")[1]["at"] >= due.timestamp()


def test_a_broadcast_task_is_done_by_every_worker_and_ping_hears_all(stage: CeleryStage) -> None:
    with stage.worker("one", SHOP_NEWS="1"), stage.worker("two", SHOP_NEWS="1"):
        eventually(
            lambda: all("ready" in stage.log(name) for name in ("one", "two")), 60, what="both are ready"
        )
        stage.broadcast("everywhere", "hello")
        eventually(lambda: len(stage.notes("heard")) == 2, 60, what="both have heard it")
        answers = stage.app.control.ping(timeout=10, limit=2)

    assert {note["worker"] for note in stage.notes("heard")} == {"one", "two"}
    assert sorted(name for answer in answers for name in answer) == ["one@test", "two@test"]
