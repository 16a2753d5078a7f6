import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import trustme

from pyromq.testing.waiting import eventually

# The fixtures `shell` and `up` are in conftest.py.
Up = Callable[..., Any]


def answers(url: str) -> dict[str, Any] | None:
    try:
        with urlopen(f"{url}/api/overview", timeout=30) as answer:
            shown: dict[str, Any] = json.loads(answer.read())
            return shown
    except OSError:
        return None


def is_well(shown: dict[str, Any]) -> bool:
    """Whether there are brokers, and all of them answer."""
    failures = [broker["failure"] for broker in shown["brokers"]]
    return bool(failures) and not any(failures) and not shown["warnings"]


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


ACCOUNTS = """accounts:
- accessKey: operator-1
  secretKey: unseen-of-the-operator
  admin: true
"""


def secured(folder: Path) -> list[str]:
    """Write certificates and accounts, and return the settings of servers that insist on both."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(folder / "server.key"))
    issued.cert_chain_pems[0].write_to_path(str(folder / "server.pem"))
    (folder / "plain_acl.yml").write_text(ACCOUNTS)
    settings = {
        "aclEnable": "true",
        "aclFolder": folder,
        "tlsServerMode": "enforcing",
        "tlsServerCertPath": folder / "server.pem",
        "tlsServerKeyPath": folder / "server.key",
        "useTLS": "true",
        "tlsClientAuthServer": "true",
        "tlsClientTrustCertPath": folder / "ca.pem",
    }
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def test_it_signs_and_speaks_tls_as_all_commands_do(shell: Any, tmp_path: Path) -> None:
    servers = shell.up(tmp_path / "data", "--no-dashboard", *secured(tmp_path))
    name_server = servers.ready()["namesrv"]
    shell.environment |= {
        "PYROMQ_ACCESS_KEY": "operator-1",
        "PYROMQ_SECRET_KEY": "unseen-of-the-operator",
        "PYROMQ_USE_TLS": "true",
        "PYROMQ_TLS_CLIENT_AUTH_SERVER": "true",
        "PYROMQ_TLS_CLIENT_TRUST_CERT_PATH": str(tmp_path / "ca.pem"),
    }
    served = shell.serve("dashboard", "-n", name_server, "--port", "0")
    url = served.ready()["url"]

    # A round that a busy machine kept from its end is followed by another.
    shown = eventually(
        lambda: (seen := answers(url)) and is_well(seen) and seen, 60, what="the dashboard shows the broker"
    )

    assert [broker["name"] for broker in shown["brokers"]] == ["broker-a"]
    assert "unseen-of-the-operator" not in served.out + served.err + json.dumps(shown)
