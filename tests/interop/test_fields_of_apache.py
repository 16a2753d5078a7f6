"""Apache's servers answer as `tests/conformance/golden/answers_*.txt` says; PYROMQ_RECORD=1 writes them."""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from harness import servers
from harness.missing import unavailable
from harness.observer import Observer
from harness.toolchains import Unavailable
from version_questions import TOPIC, ask_all, write_answers

from pyromq import Admin
from pyromq.codes import Serializer
from pyromq.testing.golden import read_answers
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

GOLDEN = Path(__file__).parents[1] / "conformance" / "golden"
#: Each file, whose answers it has, and how they were asked for. 5.5 answers a binary request in JSON too.
RECORDINGS = {
    "answers_4.9.txt": ("apache-4.9", 409, Serializer.JSON),
    "answers_4.9_binary.txt": ("apache-4.9", 409, Serializer.ROCKETMQ),
    "answers_5.5.0.txt": ("apache-5", 513, Serializer.JSON),
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_apache_answers_as_recorded(name: str, tmp_path: Path) -> None:
    kind, version, serializer = RECORDINGS[name]
    with ExitStack() as closing:
        try:
            cluster = servers.start_apache(kind, tmp_path, closing)
        except Unavailable as error:
            unavailable(error)
        (broker,) = cluster.brokers.values()
        with Admin(cluster.name_server) as admin:
            admin.create_topic(TOPIC, 2)
        eventually(lambda: Observer(cluster.name_server).queues(TOPIC), 60, what="the topic has a route")

        answers = ask_all(cluster.name_server, broker, version=version, serializer=serializer)

    if os.environ.get("PYROMQ_RECORD"):
        write_answers(answers, GOLDEN / name)
    assert answers == read_answers(GOLDEN / name)
