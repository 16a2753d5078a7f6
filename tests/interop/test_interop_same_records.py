"""The same program on Apache's 4.9 broker and on ours leaves the same records behind."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.clients import CLIENTS, Client
from harness.missing import unavailable
from harness.observer import Observer, Stored
from harness.servers import Cluster
from harness.toolchains import Unavailable

from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

PATIENCE_S = 60
MODES = ("sync", "async", "oneway", "batch")
EACH = 8  # messages; the one with index 7 is compressed where the client does so
UNIQUE_KEY = re.compile("(UNIQ_KEY\x01)[0-9A-Za-z]+")


def records(client: Client, cluster: Cluster, folder: Path) -> list[tuple[object, ...]]:
    """Let a client send by every way it has, and return what is stored, without times, places and ids."""
    topic = f"same_{client.name.replace('.', '_')}"
    observer = Observer(cluster.name_server)
    program = client.start(folder, cluster.name_server)
    try:
        if "create" in program.can:
            program.do("create", topic, 4, ",".join(cluster.brokers.values()))
            eventually(lambda: observer.queues(topic), PATIENCE_S)
        modes = [mode for mode in MODES if mode in program.can]
        for turn, mode in enumerate(modes):
            program.do("send", mode, topic, turn * EACH, EACH)
        stored: list[Stored] = eventually(
            lambda: found if len(found := observer.stored(topic)) == len(modes) * EACH else [], PATIENCE_S
        )
        assert program.quit() == 0
    finally:
        program.close()
    ordered = sorted(stored, key=lambda message: int(message.properties["index"]))
    return [(one.flags, one.times, one.body, properties(one, client.name)) for one in ordered]


def properties(message: Stored, client: str) -> object:
    text = UNIQUE_KEY.sub(r"\1<id>", message.properties_text)
    if client.startswith("go"):  # it writes its map in an order that changes from message to message
        return sorted(text.split("\x02"))
    return text


@pytest.mark.parametrize("client", CLIENTS)
def test_a_broker_of_ours_stores_what_apache_s_would_store(
    client: str, running: Callable[[str], Cluster], tmp_path: Path
) -> None:
    found = []
    for kind in ("apache-4.9", "up"):
        folder = tmp_path / kind
        folder.mkdir()
        try:
            found.append(records(CLIENTS[client], running(kind), folder))
        except Unavailable as reason:
            unavailable(reason)
    theirs, ours = found
    assert ours == theirs
