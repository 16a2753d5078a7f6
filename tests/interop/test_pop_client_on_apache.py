"""Our consumers that pop, on Apache's 5.x broker: the same stories as on ours."""

import itertools
from collections.abc import Callable, Iterator

import pop_stories
import pytest
from client_faces import Face, face_of
from harness.observer import Observer
from harness.servers import Cluster
from pop_stories import PopStage

from pyromq import PopUnsupported
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

_numbers = itertools.count(1)
SIMPLE = [
    pop_stories.messages_of_all_queues_are_received_as_they_were_sent,
    pop_stories.what_is_acknowledged_never_comes_again_and_the_rest_does,
    pop_stories.a_message_that_is_given_more_time_is_not_handed_out_meanwhile,
    pop_stories.a_message_that_failed_is_handed_out_again_at_once,
    pop_stories.a_receive_that_waits_is_answered_when_a_message_comes,
    pop_stories.only_the_wanted_tags_are_received,
]
PUSH = [
    pop_stories.a_listener_is_called_once_with_every_message,
    pop_stories.a_message_that_failed_comes_again,
    pop_stories.a_message_that_failed_too_often_is_a_dead_letter,
    pop_stories.a_slow_listener_is_not_disturbed,
    pop_stories.what_a_consumer_leaves_at_its_end_goes_to_others,
]
IN_ONE_QUEUE = [
    pop_stories.members_share_the_messages_of_one_queue,
    pop_stories.received_in_order_the_rest_of_a_queue_waits,
    pop_stories.in_order_a_failed_message_is_tried_again_before_the_next,
]


@pytest.fixture(params=["blocking", "asyncio"])
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    """Each face of the client."""
    with face_of(request.param) as face:
        yield face


def staged(face: Face, servers: Cluster, queue_count: int) -> PopStage:
    """Return a stage on a topic that the name server knows."""
    number = next(_numbers)
    stage = PopStage(
        face, servers.name_server, f"pop_{number}", f"pop_group_{number}", is_apache=servers.is_apache
    )
    stage.create_topic(queue_count)
    observer = Observer(servers.name_server)
    eventually(lambda: observer.queues(stage.topic), what=f"{stage.topic} has a route")
    return stage


@pytest.mark.parametrize("story", SIMPLE + PUSH, ids=lambda story: story.__name__)
def test_a_story_in_four_queues(face: Face, running: Callable[[str], Cluster], story) -> None:
    stage = staged(face, running("apache-5-timers"), 4)
    with stage.closing:
        story(stage)


@pytest.mark.parametrize("story", IN_ONE_QUEUE, ids=lambda story: story.__name__)
def test_a_story_in_one_queue(face: Face, running: Callable[[str], Cluster], story) -> None:
    stage = staged(face, running("apache-5-timers"), 1)
    with stage.closing:
        story(stage)


def test_a_broker_of_4_9_does_not_know_it_and_the_error_says_so(
    face: Face, running: Callable[[str], Cluster]
) -> None:
    stage = staged(face, running("apache-4.9"), 1)
    with stage.closing:
        with pytest.raises(PopUnsupported, match="without mode='pop'"):
            stage.simple().receive(wait_ms=0)
        with pytest.raises(PopUnsupported, match="without mode='pop'"):
            stage.push(pop_stories.Heard())
