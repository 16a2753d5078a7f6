"""Every command of the doctor's findings, pasted beside a cluster where it has something to do.

The commands are those of the source of the checks, so none is left out. Whether they mend what a finding
speaks of is asked by the tests of the findings (`follow` of the doctor's stages). Those that start servers
are pasted in `test_doctor_cluster_replicas.py` and `test_greetings_pasted.py`.
"""

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from command_line import words_of
from printed_commands import SOURCE, Filling, printed_commands
from push_stage import QUICK
from typer.testing import CliRunner

import pyromq
from pyromq import Message
from pyromq.cli.main import app
from pyromq.testing.cluster import running_cluster
from pyromq.testing.waiting import eventually

#: Options with which a command goes on until somebody ends it; it is pasted without them.
ENDLESS = re.compile(r" --watch 2| -f\b")
#: Commands that take away what others look at: they are pasted at the end.
LAST = ("group delete", "deleteSubGroup", "group reset", "brokerPermission")
#: They start servers, or need a group of replicas with etcd; the module's text says who pastes them.
ELSEWHERE = ("pyromq broker", "pyromq namesrv", "pyromq admin replicas")
#: Settings of the check of busy brokers, by their source.
BUSY = {
    "{_WRITE[0]}": "osPageCacheBusyTimeOutMills",
    "{_WAIT[0]}": "waitTimeMillsInSendQueue",
    "{_CAPACITY[0]}": "sendThreadPoolQueueCapacity",
}


def commands() -> list[str]:
    texts = [one.command for one in printed_commands(SOURCE / "pyromq/doctor") if one.is_marked]
    here = [text for text in texts if not text.startswith(ELSEWHERE)]
    return sorted(here, key=lambda text: any(word in text for word in LAST))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Filling]:
    """A broker, a topic, a group with a member and a dead letter, and their names for the commands."""
    with ExitStack() as closing:
        cluster = closing.enter_context(running_cluster(data_dir=tmp_path))
        server = cluster.namesrv_address
        consumer = pyromq.PushConsumer("billing", server, listener=no_luck, max_reconsume_times=0, **QUICK)
        consumer.subscribe("orders")
        producer = closing.enter_context(pyromq.Producer("shop", server))
        for number in range(8):
            producer.send(Message("orders", b"%d" % number))
        closing.enter_context(consumer)
        eventually(lambda: dead_letters(server), what="dead letters")
        yield Filling(
            {
                "survey.at": f" -n {server}",
                "told": server,
                **dict.fromkeys(
                    ("broker.address", "master.address", "best.address", "slave.address", "one.address"),
                    cluster.broker_addresses[0],
                ),
                "client_id": consumer.client_id,
                "root": str(next(tmp_path.rglob("commitlog")).parent),
                **dict.fromkeys(("broker.cluster", "cluster"), "DefaultCluster"),
                "group.retry_topic": "%RETRY%billing",
                "group.name": "billing",
                "names": "billing",
                "place_of": "broker-a:0",
                "check": "topics",
                "perm": "6",
                **dict.fromkeys(("topic.order", "config.order", "where", "only"), ""),
                **dict.fromkeys(
                    (
                        "queue_count",
                        "count",
                        "on_each",
                        "retries",
                        "limit",
                        "fewer",
                        "read_queue_nums",
                        "write_queue_nums",
                    ),
                    "8",
                ),
                **dict.fromkeys(("offset", "first.head"), "0"),
                # Of the checklist for production: an automatic creation, and hours that a disk has room for.
                "key": "autoCreateTopicEnable",
                "_HOUR_S": "48",
            },
            "orders",
        )


def no_luck(_message: object) -> bool:
    return False


def dead_letters(server: str) -> bool:
    ended = CliRunner().invoke(app, ["dlq", "list", "billing", "--json", "-n", server])
    return ended.exit_code == 0 and bool(ended.stdout.strip())


def test_each_command_of_a_finding_does_what_it_says(stage: Filling) -> None:
    pasted, refused = 0, []
    for template in commands():
        command = ENDLESS.sub("", filled(stage, template))
        if "-n" not in shlex.split(command) and "store verify" not in command:
            command += stage("survey.at")
        words = words_of(command)
        # The person who pastes it says yes.
        if words[:2] == ["group", "delete"]:
            CliRunner().invoke(app, ["group", "create", "billing", *stage("survey.at").split()])
        if words[:2] in (["group", "delete"], ["group", "reset"]):
            words.append("--yes")
        if words[0] == "doctor":
            words += ["--watch", "0"]
        ended = CliRunner().invoke(app, words)
        pasted += 1
        if ended.exit_code != 0 and words[0] != "doctor":
            refused.append(f"{command}: {ended.exit_code} {ended.output} {ended.exception!r}")

    assert not refused, "\n".join(refused)
    assert pasted > 40


def filled(stage: Filling, template: str) -> str:
    return re.sub("\x01([^\x02]*)\x02", lambda hole: named(stage, template, hole[1]), template)


def named(stage: Filling, template: str, source: str) -> str:
    """Return what a part of a command is here: `name` is a group's, a broker's or a topic's."""
    if "said_settings" in source:
        return " --set maxHashSlotNum=5000 --set maxIndexNum=20000"
    if source == "{at}":
        return f"{stage('survey.at')} -b {stage('broker.address')}"
    if "_setting(" in source:
        return "20000"
    if source in BUSY:
        return BUSY[source]
    if source in ("{name}", "{shlex.quote(name)}"):
        words = template.split()
        if "WritePerm" in template:
            return "broker-a"
        return "billing" if words[1] == "group" or "SubGroup" in template else "orders"
    return stage(source)
