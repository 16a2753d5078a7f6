"""Push consumers that pop, on our broker."""

from collections.abc import Iterator

import pop_stories
import pytest
from client_faces import Face
from pop_stories import Heard, PopStage

import pyromq
from pyromq.testing.cluster import running_cluster
from pyromq.testing.waiting import eventually


@pytest.fixture
def stage(face: Face, address: str, topic: str, group: str) -> Iterator[PopStage]:
    stage = PopStage(face, address, topic, group)
    with stage.closing:
        stage.create_topic()
        yield stage


@pytest.mark.parametrize(
    "story",
    [
        pop_stories.a_listener_is_called_once_with_every_message,
        pop_stories.a_message_that_failed_comes_again,
        pop_stories.a_message_that_failed_too_often_is_a_dead_letter,
        pop_stories.what_a_consumer_leaves_at_its_end_goes_to_others,
    ],
    ids=lambda story: story.__name__,
)
def test_a_story(stage: PopStage, story) -> None:
    story(stage)


@pytest.mark.long
def test_a_slow_listener_is_not_disturbed(stage: PopStage) -> None:
    pop_stories.a_slow_listener_is_not_disturbed(stage)


def test_in_order_a_failed_message_is_tried_again_before_the_next(
    face: Face, address: str, topic: str, group: str
) -> None:
    stage = PopStage(face, address, topic, group)
    with stage.closing:
        stage.create_topic(1)
        pop_stories.in_order_a_failed_message_is_tried_again_before_the_next(stage)


def test_a_simple_consumer_and_one_with_a_listener_share_a_group(stage: PopStage) -> None:
    heard = Heard()
    stage.push(heard)
    simple = stage.simple()
    stage.send([f"m{n}" for n in range(20)])
    found: list[pyromq.ReceivedMessage] = []

    def all_there() -> bool:
        messages = simple.receive(2, wait_ms=10)
        simple.ack(messages)
        found.extend(messages)
        return len(found) + len(heard.bodies) >= 20

    eventually(all_there)
    assert sorted(pop_stories.bodies(found) + heard.bodies) == sorted(f"m{n}" for n in range(20))


def test_a_restart_of_the_broker_costs_no_message(face: Face, topic: str, group: str) -> None:
    heard = Heard()
    with running_cluster(2) as cluster:
        stage = PopStage(face, cluster.namesrv_address, topic, group)
        with stage.closing:
            stage.create_topic()
            stage.push(heard, pop_invisible_time=5_000)
            stage.send([f"before {n}" for n in range(20)])
            eventually(lambda: heard.bodies)
            cluster.stop_broker("broker-a")
            cluster.start_broker("broker-a")
            stage.send([f"after {n}" for n in range(20)])
            eventually(lambda: len(set(heard.bodies)) == 40)
