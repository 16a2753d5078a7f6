"""The commit that answers the last question about a transaction is delivered, as by Apache 4.9."""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness import servers
from harness.missing import unavailable
from harness.observer import Observer
from harness.program import Program
from harness.servers import Cluster
from harness.toolchains import Unavailable, java_class

from pyromq import Admin
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900), pytest.mark.row("TX-07")]

TOPIC = "paid"
HALVES = 5
#: Longer than an answer takes on a busy machine: a second question would be another story.
SETTINGS = {"transactionTimeOut": 1_000, "transactionCheckInterval": 2_000}
PATIENCE_S = 120


def start(kind: str, times: int, folder: Path, closing: ExitStack) -> Cluster:
    settings = SETTINGS | {"transactionCheckMax": times}
    if kind == "ours":
        return servers.start_ours(folder, closing, **settings)
    return servers.start_apache(kind, folder, closing, **settings)


@pytest.mark.parametrize("times", [1, 2, 15])
@pytest.mark.parametrize("kind", ["ours", "apache-4.9"])
def test_a_commit_that_answers_the_last_question_is_delivered(kind: str, times: int, tmp_path: Path) -> None:
    try:
        command = java_class("Kinds", "4.9.8", [f"-Duser.home={tmp_path}"])
        with ExitStack() as closing:
            cluster = start(kind, times, tmp_path, closing)
            with Admin(cluster.name_server) as admin:
                admin.create_topic(TOPIC, 1)
            java = Program(
                [*command, cluster.name_server], folder=tmp_path, env={**os.environ, "HOME": str(tmp_path)}
            )
            closing.callback(java.close)
            bodies = answer_last(java, times)

            observer = Observer(cluster.name_server)
            eventually(
                lambda: sorted(message.body.decode() for message in observer.stored(TOPIC)) == bodies,
                PATIENCE_S,
                what=f"{HALVES} messages committed by the last answer, on {kind}",
            )
            assert len(java.of("checked")) == times * HALVES
    except Unavailable as error:
        unavailable(error)


def answer_last(java: Program, times: int) -> list[str]:
    """Send halves whose fate is known only when the last question comes; return their bodies."""
    java.do("produce", "payer", "payers", TOPIC)
    bodies = [f"{'unknown/' * times}commit/{index}" for index in range(HALVES)]
    for body in bodies:
        java.do("transact", "payer", TOPIC, body)
    return bodies
