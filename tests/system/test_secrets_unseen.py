"""Secrets are nowhere: not in what commands print, not in logs, answers and errors."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from access_stage import OPERATOR, OPERATOR_SECRET, SHOP, SHOP_SECRET, ask_as, write_accounts

from pyromq import ClientSettings
from pyromq.config.load import build
from pyromq.config.settings import BrokerProcess
from pyromq.testing.waiting import eventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.command import Command
from pyromq.wire.signature import signer

PYROMQ = [sys.executable, "-m", "pyromq"]
PATIENCE_S = 60
#: Every secret that a broker can be given.
SECRETS = {
    "innerClientAuthenticationCredentials": '{"accessKey":"the-operator","secretKey":"unseen-of-the-broker"}',
    "tlsServerKeyPassword": "unseen-of-the-key",
    "tlsClientKeyPassword": "unseen-of-the-client",
    "failover": "etcd://user:unseen-of-etcd@127.0.0.1:2379",
}


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_printed_settings_show_no_secret(tmp_path: Path, form: tuple[str, ...]) -> None:
    words = [word for key, value in SECRETS.items() for word in ("--set", f"{key}={value}")]

    ended = subprocess.run(
        [*PYROMQ, "broker", "--data", str(tmp_path), *words, "--print-settings", *form],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )

    printed = ended.stdout + ended.stderr
    assert "unseen" not in printed
    assert "innerClientAuthenticationCredentials" in printed
    assert "127.0.0.1:2379" in printed


def test_settings_show_no_secret_by_repr() -> None:
    names = {
        "inner_client_authentication_credentials": "unseen-1",
        "tls_server_key_password": "unseen-2",
        "failover": "etcd://user:unseen-3@h",
    }
    client = ClientSettings(access_key="a", secret_key="unseen-4", security_token="unseen-5")

    assert "unseen" not in repr(build(BrokerProcess, names)) + repr(client) + str(client)


def test_commands_show_no_secret_by_repr() -> None:
    command = Command(50, ext={"accessKey": "new-account", "secretKey": "unseen-6"})
    signer("somebody", "unseen-7")(command)

    assert command.ext is not None
    assert "unseen" not in repr(command)
    assert command.ext["Signature"] not in repr(command)


class Guarded:
    """A broker with access control in a process of its own, that says all it can."""

    def __init__(self, folder: Path) -> None:
        self.output = folder / "output"
        ready = folder / "ready"
        conf = write_accounts(folder / "conf")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    *(
                        *PYROMQ,
                        "up",
                        "--data",
                        str(folder / "data"),
                        "--namesrv-port",
                        "0",
                        "--broker-port",
                        "0",
                    ),
                    *("--set", "aclEnable=true", "--set", f"aclFolder={conf}", "--ready-file", str(ready)),
                    *("--set", "tlsServerKeyPassword=unseen-of-the-key", "--log-level", "debug"),
                    *(
                        "--set",
                        f"innerClientAuthenticationCredentials={SECRETS['innerClientAuthenticationCredentials']}",
                    ),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        eventually(lambda: ready.exists() and ready.read_text(), PATIENCE_S, what=self.output.read_text())
        told = json.loads(ready.read_text())
        self.name_server, self.broker = told["namesrv"], told["broker"]

    def stop(self) -> str:
        """End it, and return all that it said."""
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        return self.output.read_text()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path)
    yield guarded
    if guarded.process.poll() is None:
        guarded.process.kill()
        guarded.process.wait()


async def test_a_broker_and_its_log_show_no_secret(guarded: Guarded) -> None:
    answers = []
    async with WireClient(guarded.broker) as client:
        for account in ((OPERATOR, OPERATOR_SECRET), (SHOP, SHOP_SECRET), (SHOP, "unseen-and-wrong")):
            for code in (25, 26, 28, 50, 51, 52, 53, 54, 310, 11, 34):
                fields = {"accessKey": "a-new-account", "secretKey": "unseen-and-new", "globalWhiteAddrs": ""}
                answers.append(await ask_as(client, account, code, fields, b"not=a setting"))
        answers.append(await client.ask(26))

    said = guarded.stop() + "".join(f"{a.remark}{a.ext}{a.body.decode(errors='replace')}" for a in answers)

    assert "is refused" in said
    for secret in ("unseen", OPERATOR_SECRET, SHOP_SECRET):
        assert secret not in said


def test_a_command_signs_with_the_keys_of_the_environment_and_shows_no_secret(guarded: Guarded) -> None:
    def run(secret: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*PYROMQ, "admin", "updateTopic", "-t", "made", "-b", guarded.broker, "-n", guarded.name_server],
            env={**os.environ, "PYROMQ_ACCESS_KEY": OPERATOR, "PYROMQ_SECRET_KEY": secret},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    right, wrong = run(OPERATOR_SECRET), run("unseen-and-wrong")

    assert right.returncode == 0, right.stderr
    assert wrong.returncode != 0
    assert "Check signature failed" in wrong.stderr + wrong.stdout
    assert OPERATOR_SECRET not in right.stdout + right.stderr
    assert "unseen" not in wrong.stdout + wrong.stderr
