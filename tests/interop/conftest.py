"""Fixtures of the interop tests; `--server apache-4.9` or `apache-5` calibrates the programs on the real."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from harness import servers
from harness.missing import unavailable
from harness.observer import Observer
from harness.servers import Cluster
from harness.toolchains import Unavailable

#: A client finds no difference between the two; `make interop` runs it on both.
OURS = (pytest.param("up", marks=pytest.mark.long), "separate")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let one choose what the client programs talk to."""
    parser.addoption(
        "--server",
        action="append",
        choices=sorted(servers.STARTS),
        help="what the interop programs talk to (may be repeated); default: up and separate",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that wants a cluster once for each chosen kind."""
    if "cluster_kind" in metafunc.fixturenames:
        metafunc.parametrize("cluster_kind", metafunc.config.getoption("--server", None) or OURS)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Cluster]]:
    """Start clusters when they are first asked for; they live until the session ends."""
    clusters: dict[str, Cluster | Exception] = {}
    with ExitStack() as closing:

        def get(kind: str) -> Cluster:
            if kind not in clusters:
                try:
                    clusters[kind] = servers.STARTS[kind](tmp_path_factory.mktemp(kind), closing)
                except Exception as error:  # noqa: BLE001 the other tests need not wait for it to fail again
                    clusters[kind] = error
            found = clusters[kind]
            if isinstance(found, Unavailable):
                unavailable(found)
            if isinstance(found, Exception):
                raise found
            return found

        yield get


@pytest.fixture
def cluster(cluster_kind: str, running: Callable[[str], Cluster]) -> Cluster:
    """The servers that a client program talks to."""
    return running(cluster_kind)


@pytest.fixture
def observer(cluster: Cluster) -> Observer:
    """Another pair of eyes on the same servers."""
    return Observer(cluster.name_server)
