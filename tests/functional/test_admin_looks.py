"""Every command that only looks, on brokers in this process; the same table is for Apache's brokers too."""

import os
from collections.abc import Iterator

import pytest
from admin_looks import LOOKS, Look, check, scene
from admin_stage import AdminStage

from pyromq.testing.cluster import running_cluster


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with running_cluster(trace_topic_enable=True) as cluster:
        stage = AdminStage(cluster.namesrv_address)
        address = cluster.broker_addresses[0]
        with scene(stage, f"seen-{os.getpid()}", address=address, can_delay=True) as found:
            yield found | {"folder": str(tmp_path_factory.mktemp("exported"))}


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_a_command_that_looks_shows_what_is_there(
    look: Look, played: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(look, played, look.status, monkeypatch)
