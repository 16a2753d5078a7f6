"""The pytest plugin: fixtures for tests of code that uses RocketMQ. `docs/howto/testing.md` shows them.

pytest finds it by itself (entry point `pytest11`), in every project where PyroMQ is installed. So it imports
nothing of PyroMQ's before a fixture is used.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyromq.testing.broker_of_test import BrokerOfTest, ClockOfTest
    from pyromq.testing.session_servers import ClusterOfTest, SessionServers

_MARK = "pyromq"
_CLOCK = "pyromq_clock"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for a real broker, and the settings of the one in this process."""
    parser.getgroup(_MARK, "RocketMQ in tests").addoption(
        "--pyromq-namesrv",
        metavar="HOST:PORT",
        help="run the tests with the broker of this name server instead of one in this process",
    )
    parser.addini(
        "pyromq_settings",
        "settings of the broker that tests share, a line each: autoCreateTopicEnable=false",
        type="linelist",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARK}(brokers=1, grpc=False, **settings): this test has servers of its own, with these settings "
        "of broker.conf",
    )


@pytest.fixture(scope="session")
def _pyromq_servers(request: pytest.FixtureRequest) -> Iterator["SessionServers"]:
    """The servers of this session: of one worker, with xdist."""
    from pyromq.testing.session_servers import SessionServers, read_ini

    with _told():
        servers = SessionServers(
            read_ini(request.config.getini("pyromq_settings")), request.config.getoption("--pyromq-namesrv")
        )
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def pyromq_name_server(_pyromq_servers: "SessionServers") -> str:
    """The address of the name server that tests share, `host:port`: for what is set up once a session."""
    with _told():
        return _pyromq_servers.shared().name_server


@pytest.fixture
def pyromq_cluster(
    request: pytest.FixtureRequest, _pyromq_servers: "SessionServers"
) -> Iterator["ClusterOfTest"]:
    """The servers that this test uses: shared ones, or its own if it is marked or moves the clock."""
    marked = _marked(request)
    moves_time = _CLOCK in request.fixturenames
    if marked is None and not moves_time:
        with _told():
            cluster = _pyromq_servers.shared()
        yield cluster
        cluster.start_stopped()
        return
    if _pyromq_servers.real is not None:
        why = "a broker whose clock it moves" if moves_time else "a broker of its own (@pytest.mark.pyromq)"
        pytest.skip(f"needs {why}; --pyromq-namesrv names a real one")
    running = _pyromq_servers.own(marked or {}, moves_time=moves_time)
    with _told():
        cluster = running.__enter__()
    try:
        yield cluster
    finally:
        running.__exit__(None, None, None)


@pytest.fixture
def pyromq_broker(pyromq_cluster: "ClusterOfTest") -> Iterator["BrokerOfTest"]:
    """A broker: topics and groups for this test, sending, and what there is in the end."""
    from pyromq.testing.broker_of_test import BrokerOfTest

    broker = BrokerOfTest(pyromq_cluster)
    yield broker
    pyromq_cluster.start_stopped()
    broker.clean_up()


@pytest.fixture
def pyromq_topic(pyromq_broker: "BrokerOfTest") -> str:
    """The name of a topic that no other test uses."""
    return pyromq_broker.topic()


@pytest.fixture
def pyromq_group(pyromq_broker: "BrokerOfTest") -> str:
    """The name of a consumer group that no other test uses."""
    return pyromq_broker.group()


@pytest.fixture
def pyromq_clock(pyromq_cluster: "ClusterOfTest") -> "ClockOfTest":
    """The broker's time, to be moved. The test has a broker of its own then."""
    from pyromq.testing.broker_of_test import ClockOfTest

    clock = pyromq_cluster.clock
    if clock is None:
        pytest.fail(
            f"{_CLOCK} was asked for by request.getfixturevalue, when the broker ran already: let the test "
            f'or one of its fixtures take it as an argument, or @pytest.mark.usefixtures("{_CLOCK}")',
            pytrace=False,
        )
    return ClockOfTest(pyromq_cluster, clock)


def _marked(request: pytest.FixtureRequest) -> dict[str, object] | None:
    """Return what the markers of a test say, the nearest first; None if it has none."""
    markers = list(request.node.iter_markers(_MARK))
    merged: dict[str, object] = {}
    for marker in reversed(markers):
        if marker.args:
            pytest.fail(
                f"@pytest.mark.pyromq{marker.args!r}: settings have names: "
                "@pytest.mark.pyromq(autoCreateTopicEnable=False)",
                pytrace=False,
            )
        merged |= marker.kwargs
    return merged if markers else None


@contextmanager
def _told() -> Iterator[None]:
    """Tell what is wrong with settings or servers without a trace of what is not the reader's."""
    from pyromq.errors import ConfigError
    from pyromq.testing.session_servers import NoSuchServer

    try:
        yield
    except (ConfigError, NoSuchServer) as error:
        pytest.fail(str(error), pytrace=False)
