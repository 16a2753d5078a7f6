"""What is to be seen of replication from outside."""

import asyncio
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from replication_stage import Stage, open_store, put

from pyromq.broker.replication.figures import following_figures, leading_figures
from pyromq.net.metrics import Figure
from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage(tmp_path) as stage:
        yield stage


def seen(figures: list[Figure]) -> dict[str, dict[tuple[str, ...], float]]:
    return {figure.name: dict(figure.read()) for figure in figures}


async def test_a_master_shows_how_far_behind_each_slave_is(stage: Stage) -> None:
    master = await stage.master(epoch=1, in_sync=frozenset({2}))
    figures = leading_figures(master.followers, master.store)
    end = master.write(3)
    assert seen(figures) == {
        "pyromq_followers": {(): 0},
        "pyromq_follower_lag_bytes": {},
        "pyromq_unconfirmed_bytes": {(): end},
    }
    await stage.slave(master.address, id_=2)
    await aeventually(lambda: master.followers.confirmed == end)
    assert seen(figures) == {
        "pyromq_followers": {(): 1},
        "pyromq_follower_lag_bytes": {("2",): 0},
        "pyromq_unconfirmed_bytes": {(): 0},
    }


async def test_a_slave_shows_that_it_copies(stage: Stage) -> None:
    master = await stage.master()
    slave = await stage.slave(master.address)
    end = master.write(3)
    await slave.has(end)
    assert seen(following_figures(slave.client)) == {
        "pyromq_following": {(): 1},
        "pyromq_following_lag_bytes": {(): 0},
        "pyromq_copied_bytes_total": {(): end},
        "pyromq_diverged": {(): 0},
    }


async def test_a_slave_shows_that_its_log_does_not_fit(stage: Stage) -> None:
    ahead = open_store(stage.folder / "slave")
    put(ahead, b"only here")
    ahead.close()
    master = await stage.master()
    slave = await stage.slave(master.address)
    await aeventually(lambda: seen(following_figures(slave.client))["pyromq_diverged"] == {(): 1})
    assert seen(following_figures(slave.client))["pyromq_copied_bytes_total"] == {(): 0}


async def test_the_page_of_a_broker_has_its_followers(tmp_path: Path) -> None:
    async with Cluster(
        data_dir=tmp_path, metrics_exporter_type="PROM", metrics_prom_exporter_port=0
    ) as cluster:
        metrics = cluster.brokers["broker-a"].metrics
        assert metrics is not None
        text = await asyncio.to_thread(_fetch, f"http://127.0.0.1:{metrics.port}/metrics")
        assert "\npyromq_followers{" in text


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        text: str = answer.read().decode()
        return text
