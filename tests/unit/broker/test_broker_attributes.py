"""Attributes of topics and groups: what may change, and RocketMQ's remarks."""

import pytest

from pyromq.broker.topics.attributes import (
    GROUP_ATTRIBUTES,
    TOPIC_ATTRIBUTES,
    changed_attributes,
    read_changes,
    written_changes,
)
from pyromq.errors import ServerFailed

Attributes = dict[str, str] | None


def changed(current: Attributes, text: str, *, is_new: bool = False) -> Attributes:
    return changed_attributes(TOPIC_ATTRIBUTES, current, read_changes(text), is_new=is_new)


def test_attributes_are_added_changed_and_removed() -> None:
    first = changed(None, "+message.type=FIFO,+reserve.time=24", is_new=True)

    assert first == {"message.type": "FIFO", "reserve.time": "24"}
    assert changed(first, "+message.type=DELAY,-reserve.time") == {"message.type": "DELAY"}
    assert changed({"message.type": "FIFO"}, "-message.type") is None
    assert changed({"message.type": "FIFO"}, "") == {"message.type": "FIFO"}


def test_what_is_written_for_a_new_topic_reads_as_the_same() -> None:
    attributes = {"message.type": "FIFO", "reserve.time": "24"}

    assert changed(None, written_changes(attributes) or "", is_new=True) == attributes
    assert written_changes(None) is None
    assert written_changes({}) is None


@pytest.mark.parametrize(
    ("current", "text", "remark"),
    [
        (None, "message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        (None, "message.type", "delete attribute format is wrong: message.type"),
        (None, "+message.type=FIFO,+message.type=DELAY", "key duplication: +message.type"),
        (
            {"message.type": "FIFO"},
            "+message.type=DELAY,-message.type",
            "alter duplication key. key: message",
        ),
        ({}, "++message.type=FIFO", "kv string format wrong."),
        ({}, "+message-type=FIFO", "kv string format wrong."),
        ({}, "+=FIFO", "kv string format wrong."),
        ({}, "x+message.type=FIFO", "kv string format wrong."),
        ({}, "+colour=red", "unsupported key: colour"),
        ({}, "+message.type=LATER", "value is not in set: "),
        ({}, "+message.type=LITE", "LITE is not supported by this broker"),
        ({}, "-message.type", "attempt to delete a nonexistent key: message.type"),
        ({}, "+queue.type=SimpleCQ", "attempt to update an unchangeable attribute. key: queue.type"),
        ({}, "+reserve.time=-2", "value is not in range(-1, "),
        ({}, "+reserve.time=soon", "value is not in range(-1, "),
        ({}, f"+reserve.time={'9' * 5_000}", "value is not in range(-1, "),
    ],
)
def test_a_change_that_may_not_be_made_is_refused(current: Attributes, text: str, remark: str) -> None:
    with pytest.raises(ServerFailed) as refused:
        changed(current, text)

    assert refused.value.remark.startswith(remark)


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("-message.type", "only add attribute is supported while creating topic. key: message.type"),
        ("+queue.type=BatchCQ", "BatchCQ is not supported by this broker"),
        ("+cleanup.policy=COMPACTION", "COMPACTION is not supported by this broker"),
    ],
)
def test_a_new_topic_may_not_have_everything(text: str, remark: str) -> None:
    with pytest.raises(ServerFailed) as refused:
        changed(None, text, is_new=True)

    assert refused.value.remark.startswith(remark)


def test_a_new_topic_may_have_what_is_never_changed() -> None:
    assert changed(None, "+queue.type=SimpleCQ", is_new=True) == {"queue.type": "SimpleCQ"}


@pytest.mark.parametrize("value", ["-1", "101", "", "many"])
def test_a_groups_factor_has_a_range(value: str) -> None:
    with pytest.raises(ServerFailed, match="value is not in range"):
        changed_attributes(GROUP_ATTRIBUTES, None, {"+priority.factor": value}, is_new=True)
