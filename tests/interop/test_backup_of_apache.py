"""`pyromq store backup` beside a running Apache broker, and our broker on the copy."""

import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.servers import start_apache, start_pyromq
from harness.toolchains import Unavailable

from pyromq import Message, Producer, PullConsumer, PullStatus

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

PYROMQ = Path(sys.executable).with_name("pyromq")


def run(*arguments: str) -> str:
    done = subprocess.run([PYROMQ, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def send(name_server: str, first: int, end: int) -> None:
    with Producer("clerks", name_server) as producer:
        for number in range(first, end):
            producer.send(Message("orders", b"%d" % number, keys=[str(number)]))


def bodies(name_server: str) -> list[int]:
    found = []
    with PullConsumer("auditors", name_server) as consumer:
        for queue in consumer.queues("orders"):
            offset = consumer.min_offset(queue)
            while (pulled := consumer.pull(queue, offset)).status is PullStatus.FOUND:
                found += [int(one.body) for one in pulled.messages]
                offset = pulled.next_offset
    return sorted(found)


def test_our_broker_on_a_backup_of_a_running_apache_broker_has_every_message(tmp_path: Path) -> None:
    with ExitStack() as closing:
        try:
            apache = start_apache("apache-4.9", tmp_path / "apache", closing)
        except Unavailable as reason:
            unavailable(reason)
        (log,) = (tmp_path / "apache").rglob("commitlog")
        backup = tmp_path / "backup"
        send(apache.name_server, 0, 300)
        run("store", "backup", str(log.parent), str(backup))
        send(apache.name_server, 300, 400)
        second = json.loads(run("store", "backup", str(log.parent), str(backup), "--json"))
        assert not second["is_first"]
        assert 0 < second["copied_bytes"] < second["end"]

        run("store", "verify", str(backup))
        shutil.copytree(backup, tmp_path / "ours" / "broker-a")
        ours = start_pyromq(
            tmp_path,
            closing,
            "restored",
            *("up", "--data", str(tmp_path / "ours"), "--namesrv-port", "0", "--broker-port", "0"),
        )

        assert bodies(ours["namesrv"]) == list(range(400))
