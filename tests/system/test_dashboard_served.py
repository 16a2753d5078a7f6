import json
from collections.abc import Callable
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from pyromq.testing.waiting import eventually

# The fixtures `shell` and `up` are in conftest.py.
Up = Callable[..., Any]


def answers(url: str) -> dict[str, Any] | None:
    try:
        with urlopen(f"{url}/api/overview", timeout=30) as answer:
            shown: dict[str, Any] = json.loads(answer.read())
            return shown
    except URLError:
        return None


def test_up_serves_a_dashboard_on_a_port_of_its_own_and_stops_it(up: Up) -> None:
    server = up("--dashboard-port", "0")
    url = server.ready()["dashboard"]

    shown = eventually(
        lambda: (seen := answers(url)) and seen["brokers"] and seen, 60, what="the dashboard shows the broker"
    )

    assert [broker["name"] for broker in shown["brokers"]] == ["broker-a"]
    assert url in server.out
    assert server.stop() == 0
    assert answers(url) is None


def test_a_program_that_starts_a_cluster_gets_no_dashboard_unless_it_asks(up: Up) -> None:
    assert "dashboard" not in up("--json").ready()


def test_a_dashboard_for_other_machines_needs_a_password(shell: Any) -> None:
    done = shell.run("dashboard", "-n", "127.0.0.1:1", "--listen", "0.0.0.0", "--port", "0")

    assert done.returncode == 2
    assert "PYROMQ_DASHBOARD_PASSWORD" in done.stderr
