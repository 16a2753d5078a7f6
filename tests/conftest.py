"""What holds for all tests."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

# A slow machine is no reason to fail: nothing here is timed.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Spark's Java starts quickly and optimises little: no session here lives long enough for that to pay, and one
# takes 24 instead of 43 seconds of processor time.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto")
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto")

# Tests run beside each other: servers that the command line starts have no port for gRPC, unless told so.
os.environ.setdefault("PYROMQ_GRPC_SERVER_PORT", "0")

#: The files that take longest: with several workers these begin first, so that none is left alone at the end.
LONGEST = (
    "test_demo.py",
    "test_howto_operate.py",
    "test_ha_schedules.py",
    "test_interop_clients.py",
    "test_howto_cluster.py",
    "test_cli_cluster.py",
    "test_cli_store.py",
    "test_install.py",
    "test_fuzz_kernel.py",
    "test_failover_group.py",
    "test_torture_command.py",
    "test_broker_kill.py",
    "test_once_servers.py",
    "test_client_examples.py",
    "test_failover_processes.py",
    "test_replica_states.py",
    "test_full_disk.py",
    "test_same_files.py",
    "test_push_with_java.py",
    "test_our_client_on_apache.py",
    "test_mixed_group_under_load.py",
    "test_kinds_of_java.py",
)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Order the files, when they have been shuffled."""
    yield
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


class ByServers(LoadFileScheduling):  # type: ignore[misc]
    """Gives a file's tests to one worker, for they share servers; of the clients' stories, those of one."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        _, has_story, story = test.partition("[")
        return f"{file}[{story}" if has_story and file.endswith("/test_interop_clients.py") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have `--dist loadfile` mean that."""
    return ByServers(config, log) if config.getoption("dist") == "loadfile" else None
