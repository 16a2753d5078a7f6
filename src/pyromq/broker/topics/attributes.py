"""Attributes of topics and groups: 5.x's named values, and the changes that operators ask for.

`+message.type=FIFO,-reserve.time` gives one attribute a value and removes another; a table holds them without
the signs. The remarks are those of RocketMQ 5.5.0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyromq.codes import ResponseCode
from pyromq.errors import ServerFailed
from pyromq.model import TopicType
from pyromq.wire.bodies.topic_bodies import MESSAGE_TYPE

ADD: Final = "+"
REMOVE: Final = "-"
_INT64_MAX: Final = 2**63 - 1

#: Raises ServerFailed for a value that an attribute may not have.
Verify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class AttributeRule:
    """The rule of one attribute: its values, and whether it may change once the topic is there."""

    verify: Verify
    is_changeable: bool


def _one_of(*words: str) -> Verify:
    def verify(value: str) -> None:
        if value not in words:
            raise _refused(f"value is not in set: [{', '.join(words)}]")

    return verify


def _between(least: int, most: int) -> Verify:
    def verify(value: str) -> None:
        try:
            number = int(value) if len(value) <= 20 else None
        except ValueError:
            number = None
        if number is None or not least <= number <= most:
            raise _refused(f"value is not in range({least}, {most})")

    return verify


def _only(value: str, why: str, *others: str) -> Verify:
    """One value of several that RocketMQ has is what this broker does anyway; it refuses the others."""
    known = _one_of(value, *others)

    def verify(given: str) -> None:
        known(given)
        if given != value:
            raise _refused(f"{given} is not supported by this broker: {why}")

    return verify


def _topic_type(value: str) -> None:
    _one_of(*TopicType)(value)
    if value == TopicType.LITE:
        raise _refused("LITE is not supported by this broker: it has no lite topics")


TOPIC_ATTRIBUTES: Final[Mapping[str, AttributeRule]] = {
    MESSAGE_TYPE: AttributeRule(_topic_type, is_changeable=True),
    "queue.type": AttributeRule(
        _only("SimpleCQ", "each message has an entry in its queue; use queue.type=SimpleCQ", "BatchCQ"),
        is_changeable=False,
    ),
    "cleanup.policy": AttributeRule(
        _only("DELETE", "it does not compact topics; use cleanup.policy=DELETE", "COMPACTION"),
        is_changeable=False,
    ),
    "reserve.time": AttributeRule(_between(-1, _INT64_MAX), is_changeable=True),
}
GROUP_ATTRIBUTES: Final[Mapping[str, AttributeRule]] = {
    "priority.factor": AttributeRule(_between(0, 100), is_changeable=True),
}


def read_changes(text: str | None) -> dict[str, str]:
    """Return the changes that the field of a request lists; raise ServerFailed where it does not read."""
    changes: dict[str, str] = {}
    for item in (text or "").split(","):
        if not item and not changes:
            continue
        key, equals, value = item.partition("=")
        if equals and ADD not in key:
            raise _refused(f"add/alter attribute format is wrong: {key}")
        if not equals and REMOVE not in key:
            raise _refused(f"delete attribute format is wrong: {key}")
        if key in changes:
            raise _refused(f"key duplication: {key}")
        changes[key] = value
    return changes


def written_changes(attributes: Mapping[str, str] | None) -> str | None:
    """Return the field of a request that gives a new topic these attributes; None for none."""
    return ",".join(f"{ADD}{name}={value}" for name, value in (attributes or {}).items()) or None


def changed_attributes(
    rules: Mapping[str, AttributeRule],
    current: Mapping[str, str] | None,
    changes: Mapping[str, str] | None,
    *,
    is_new: bool,
) -> dict[str, str] | None:
    """Return the attributes after changes, None for none; raise ServerFailed when one may not be made."""
    result = dict(current or {})
    seen: set[str] = set()
    for key, value in (changes or {}).items():
        name = key[1:]
        _check_key(name, seen)
        if is_new and not key.startswith(ADD):
            raise _refused(f"only add attribute is supported while creating topic. key: {name}")
        if key[0] not in (ADD, REMOVE):
            raise _refused(f"wrong format key: {name}")
        removes = key.startswith(REMOVE)
        if removes and name not in result:
            raise _refused(f"attempt to delete a nonexistent key: {name}")
        rule = rules.get(name)
        if rule is None:
            raise _refused(f"unsupported key: {name}")
        if not is_new and not rule.is_changeable:
            raise _refused(f"attempt to update an unchangeable attribute. key: {name}")
        if removes:
            del result[name]
        else:
            rule.verify(value)
            result[name] = value
    return result or None


def _check_key(name: str, seen: set[str]) -> None:
    if not name or ADD in name or REMOVE in name:
        raise _refused("kv string format wrong.")
    if name in seen:
        raise _refused(f"alter duplication key. key: {name}")
    seen.add(name)


def _refused(remark: str) -> ServerFailed:
    return ServerFailed(ResponseCode.SYSTEM_ERROR, remark)
