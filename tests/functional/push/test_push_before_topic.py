"""Consumers that start before their topic exists, with default settings."""

import logging

import pytest
from push_stage import FIRST, Handler

import pyromq
from pyromq import Message
from pyromq.testing.cluster import ThreadCluster
from pyromq.testing.waiting import eventually


@pytest.mark.row("RB-04")
def test_the_first_message_of_a_topic_comes_soon_and_one_short_line_tells_of_the_wait(
    cluster: ThreadCluster, caplog: pytest.LogCaptureFixture
) -> None:
    handler, name_server = Handler(), cluster.namesrv_address
    with caplog.at_level(logging.DEBUG, "pyromq.client"):
        consumer = pyromq.PushConsumer("early", name_server, listener=handler, **FIRST)
        consumer.subscribe("comes_later")
        with consumer, pyromq.Producer("late", name_server) as producer:
            # Several looks found no topic: the pauses between them do not grow beyond two seconds.
            eventually(lambda: len(looks(caplog)) >= 3, 30)
            producer.send(Message("comes_later", b"first"))
            eventually(lambda: handler.bodies == [b"first"], 10)

    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == ["group early: there is no topic comes_later yet; it is consumed once there is"]


def looks(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [record.getMessage() for record in list(caplog.records)]
    return [text for text in texts if "topic comes_later is not rebalanced" in text]
