import pytest

from pyromq.advice import advice_for
from pyromq.cli import exit_status
from pyromq.codes import ResponseCode
from pyromq.dashboard import failure_advice as pages
from pyromq.errors import (
    ConfigError,
    ConnectFailed,
    NoPermission,
    NoRoute,
    NotThere,
    PyroError,
    Refused,
    RequestTimeout,
    TopicNotFound,
)

ABSENT_TOPIC = TopicNotFound(ResponseCode.TOPIC_NOT_EXIST, "no topic orders")
TOLD = [
    ABSENT_TOPIC,
    Refused(ResponseCode.CONSUMER_NOT_ONLINE, "nobody"),
    NoPermission(ResponseCode.NO_PERMISSION, "no"),
    Refused(ResponseCode.SYSTEM_ERROR, "org.apache.rocketmq.acl.common.AclException: No accessKey"),
    ConnectFailed("10.0.0.7:10911"),
    RequestTimeout("10.0.0.7:10911"),
]


@pytest.mark.parametrize("error", TOLD, ids=lambda error: type(error).__name__)
def test_a_terminal_and_a_page_say_the_same_step(error: PyroError) -> None:
    advice = advice_for(error)

    assert advice is not None
    assert advice.step in (exit_status.next_step(error) or "")
    assert advice.step[1:] in pages.next_step(error)


def test_only_a_terminal_names_what_to_type() -> None:
    assert "pyromq topic list" in (exit_status.next_step(ABSENT_TOPIC) or "")
    assert "pyromq" not in pages.next_step(ABSENT_TOPIC)


@pytest.mark.parametrize("error", [ConfigError("a"), NoRoute("b"), NotThere("c"), Refused(999, "d")])
def test_a_terminal_adds_nothing_to_what_says_it_itself(error: PyroError) -> None:
    assert exit_status.next_step(error) is None


@pytest.mark.parametrize("error", [*TOLD, ConfigError("a"), NoRoute("b"), Refused(999, "d"), PyroError("e")])
def test_a_page_always_has_a_next_step_that_is_a_sentence(error: PyroError) -> None:
    step = pages.next_step(error)

    assert step[0].isupper()
    assert step[-1] in ".?"
