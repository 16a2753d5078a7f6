"""Checks of a consumer's arguments, as RocketMQ checks them."""

import dataclasses
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from pyromq.config.field import settings_of
from pyromq.config.load import nearest
from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError
from pyromq.model import ConsumeFrom

E = TypeVar("E", bound=StrEnum)

TIMESTAMP_FORM = "%Y%m%d%H%M%S"
#: A new group that starts by time starts that long ago.
DEFAULT_AGO_MS = 30 * 60 * 1_000


def with_changes(settings: ClientSettings | None, changes: dict[str, Any]) -> ClientSettings:
    """Return settings with fields replaced; raise ConfigError for unknown ones and values out of range."""
    known = [setting.name for setting in settings_of(ClientSettings)]
    for name in changes:
        if name not in known:
            near = nearest(name, known)
            hint = f"; did you mean {near}?" if near else ""
            raise ConfigError(f"{name!r} is no argument of PushConsumer and no field of ClientSettings{hint}")
    chosen = dataclasses.replace(settings or ClientSettings(), **changes)
    check_ranges(chosen)
    return chosen


def check_ranges(settings: ClientSettings) -> None:
    """Raise ConfigError for a number that is out of range, by itself or beside another."""
    for setting in settings_of(ClientSettings):
        value = getattr(settings, setting.name)
        if setting.kind is not int:
            continue
        if setting.at_least is not None and value < setting.at_least:
            raise ConfigError(f"{setting.name} is {value}; {setting.at_least} is the least")
        if setting.at_most is not None and value > setting.at_most:
            raise ConfigError(f"{setting.name} is {value}; {setting.at_most} is the most")
    if settings.consume_thread_min > settings.consume_thread_max:
        raise ConfigError(
            f"consume_thread_min ({settings.consume_thread_min}) is larger than consume_thread_max "
            f"({settings.consume_thread_max}): as many calls as consume_thread_min run at once, so set both"
        )


def member_of(kind: type[E], name: str, value: str) -> E:
    """Return what a word means as an argument of that name; raise ConfigError when it means nothing."""
    try:
        return kind(value)
    except ValueError as error:
        known = " or ".join(repr(str(member)) for member in kind)
        raise ConfigError(f"{name} is {value!r}; it must be {known}") from error


def check_start_of_pops(group: str, consume_from: ConsumeFrom) -> None:
    """Raise ConfigError for a start by time, which a pop cannot ask for."""
    if consume_from is ConsumeFrom.TIMESTAMP:
        raise ConfigError(
            "a group that pops begins with the first or the last message; to begin at a time, set it for "
            f"each topic before: `pyromq group reset {group} --topic TOPIC --time 2h`"
        )


def start_time_ms(timestamp: str | datetime | None, now_ms: int) -> int:
    """Return the time at which a new group starts: "yyyyMMddHHmmss" in local time, or half an hour ago."""
    if timestamp is None:
        return now_ms - DEFAULT_AGO_MS
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.strptime(timestamp, TIMESTAMP_FORM).astimezone()
        except ValueError as error:
            raise ConfigError(
                f"consume_timestamp is {timestamp!r}; it must be like 20261116024500 (yyyyMMddHHmmss)"
            ) from error
    return int(timestamp.timestamp() * 1_000)
