"""The options of `format("rocketmq")`: read once, each bad one named."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pyromq.errors import ConfigError

#: Spark's own options that reach every source.
_SPARK_OPTIONS = {"path", "paths"}
#: Our options, and the names under which users of the Kafka source know them; all without regard to case.
_NAMES = {
    "nameserver": "nameServer",
    "rocketmq.nameserver": "nameServer",
    "subscribe": "subscribe",
    "topic": "subscribe",
    "startingoffsets": "startingOffsets",
    "endingoffsets": "endingOffsets",
    "tags": "tags",
    "pulltimeoutms": "pullTimeoutMs",
}


class Edge(StrEnum):
    """The end of a queue that a read starts or ends at."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a read asks for."""

    name_server: str
    topics: tuple[str, ...]
    starting: Edge
    ending: Edge
    tags: str
    pull_timeout_ms: int


def read_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options; raise ConfigError that names what is missing, unknown or unreadable."""
    given: dict[str, str] = {}
    for key, value in options.items():
        name = _NAMES.get(key.lower())
        if name is not None:
            given[name] = value
        elif key.lower() not in _SPARK_OPTIONS:
            raise ConfigError(f"format('rocketmq') has no option {key!r}{_nearest(key)}")
    topics = tuple(topic.strip() for topic in _required(given, "subscribe").split(",") if topic.strip())
    return SourceOptions(
        name_server=_required(given, "nameServer").replace(",", ";"),
        topics=topics,
        starting=_edge(given, "startingOffsets", Edge.EARLIEST),
        ending=_edge(given, "endingOffsets", Edge.LATEST),
        tags=given.get("tags", "*"),
        pull_timeout_ms=_number(given, "pullTimeoutMs", 10_000),
    )


def _nearest(key: str) -> str:
    near = difflib.get_close_matches(key.lower(), _NAMES, n=1)
    return (
        f"; did you mean {_NAMES[near[0]]!r}?"
        if near
        else f"; it has {', '.join(sorted(set(_NAMES.values())))}"
    )


def _required(given: Mapping[str, str], name: str) -> str:
    value = given.get(name, "").strip()
    if not value:
        example = "127.0.0.1:9876" if name == "nameServer" else "orders"
        raise ConfigError(f"format('rocketmq') needs .option({name!r}, …), for example {example!r}")
    return value


def _edge(given: Mapping[str, str], name: str, default: Edge) -> Edge:
    try:
        return Edge(given.get(name, default).lower())
    except ValueError:
        raise ConfigError(f"{name} is {given[name]!r}; it can be 'earliest' or 'latest'") from None


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(given.get(name, default))
    except ValueError:
        raise ConfigError(f"{name} is {given[name]!r}; it is a number of milliseconds") from None
