"""Clients that need what only 5.x's servers send: rocketmq-spring 2.2.3 on client 5.0.0, and the Rust client.

The quick tests of the same fields are `tests/conformance/test_fields_of_5x.py`.
"""

import os
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.observer import Observer
from harness.processes import Server
from harness.program import Program
from harness.servers import Cluster
from harness.toolchains import Unavailable, java_class, rust_client

from pyromq import Admin
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(2400), pytest.mark.row("PR-26")]

PATIENCE_S = 90


def bodies(cluster: Cluster, topic: str) -> list[str]:
    return sorted(message.body.decode() for message in Observer(cluster.name_server).stored(topic))


def create(cluster: Cluster, topic: str) -> None:
    with Admin(cluster.name_server) as admin:
        admin.create_topic(topic, 2)
    eventually(lambda: Observer(cluster.name_server).queues(topic), PATIENCE_S, what=f"{topic} has a route")


def test_spring_s_template_finds_its_transactions_again(cluster: Cluster, tmp_path: Path) -> None:
    """Its listener notes them under an id that it has from the answer to the send."""
    topic = f"spring_{cluster.kind.replace('.', '_')}"
    create(cluster, topic)
    try:
        command = java_class("SpringTransactions", "2.2.3", [f"-Duser.home={tmp_path}"], jars="spring-2.2.3")
    except Unavailable as error:
        unavailable(error)
    spring = Server(
        [*command, cluster.name_server, topic, "now", "later", "never"], folder=tmp_path, name="spring"
    )
    try:
        spring.wait_for_text("ready", PATIENCE_S)
        eventually(lambda: "checked never" in spring.output, PATIENCE_S, what="the broker asks")
        eventually(lambda: bodies(cluster, topic) == ["later", "now"], PATIENCE_S, what="two are committed")
    finally:
        spring.kill()

    told = [line.split() for line in spring.output.splitlines()]
    for body in ("now", "later", "never"):
        (executed,) = [words[2] for words in told if words[:2] == ["executed", body]]
        ((transaction_id, message_id),) = [words[2:] for words in told if words[:2] == ["sent", body]]
        assert executed == transaction_id == message_id
    assert bodies(cluster, topic) == ["later", "now"]


def test_the_rust_client_sends_and_consumes(cluster: Cluster, tmp_path: Path) -> None:
    topic = f"rust_{cluster.kind.replace('.', '_')}"
    create(cluster, topic)
    try:
        command = rust_client()
    except Unavailable as error:
        unavailable(error)
    rust = Program(
        [*command, cluster.name_server], folder=tmp_path, env={**os.environ, "HOME": str(tmp_path)}
    )
    try:
        rust.do("join", f"{topic}_group", topic)
        for index in range(5):
            rust.do("send", topic, f"plain-{index}")
        rust.do("transact", topic, "paid")

        expected = sorted(["paid", *(f"plain-{index}" for index in range(5))])
        eventually(lambda: bodies(cluster, topic) == expected, PATIENCE_S, what="all are stored")
        eventually(
            lambda: sorted({event["body"] for event in rust.of("consumed")}) == expected,
            PATIENCE_S,
            what="all are consumed",
        )
        assert rust.quit() == 0
    finally:
        rust.close()
