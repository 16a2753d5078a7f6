"""Settings while a process runs: shown whole to RocketMQ's tools, and some of them changed.

A request for the settings shows `as_properties`; a request to change some goes through `changed`, which
returns new settings: code that asks for them anew sees the change whole.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyromq.config.field import Setting, settings_of
from pyromq.config.load import Process, nearest, settings_by_name
from pyromq.config.setting_names import OUR_NAMES, our_name
from pyromq.config.values import Value, read_value, write_value
from pyromq.errors import ConfigError

if TYPE_CHECKING:
    from pyromq.config.idle import Unheeded

#: What names files, or makes RocketMQ's brokers run commands: CVE-2023-33246, CVE-2023-37582.
_HARMFUL = re.compile(r"path|dir$|home|folder|filterserver|command|(?<!sub)script", re.IGNORECASE)
_STARS = "******"
_PASSWORD = re.compile(r"(://[^:/@]*:)[^/]*@")


def as_properties(process: Process) -> dict[str, str]:
    """Return all settings of a process under RocketMQ's names; what is secret as stars."""
    shown: dict[str, str] = {}
    for field in dataclasses.fields(process):
        part = getattr(process, field.name)
        for setting in settings_of(type(part)):
            shown.setdefault(setting.key, _shown(setting, write_value(getattr(part, setting.name))))
    return shown


def changed(process: Process, updates: Mapping[str, str]) -> Process:
    """Return the settings with these changes.

    Raises ConfigError, and changes nothing, if a key is unknown or needs a restart, or a value does not
    read. RocketMQ's names that have no effect here are accepted and have none, but not those that name files
    or make it run commands: who sends them means harm, and is not to be told that it worked.
    """
    known = settings_by_name(type(process))
    values: dict[str, Value] = {}
    problems = []
    for key, text in updates.items():
        name = our_name(key)
        if _HARMFUL.search(key):
            problems.append(f"{key} is never changed over the network; set it in the file and restart")
        elif name in known and not known[name].live:
            problems.append(f"{key} cannot change while this runs; set it in the file and restart")
        elif name in known:
            try:
                values[name] = read_value(known[name], text)
            except ValueError as error:
                problems.append(f"{key}: {error}")
        elif (problem := _unknown(key, known)) is not None:
            problems.append(problem)
    if problems:
        raise ConfigError("\n".join(problems))
    return _replaced(process, values)


def idle_updates(updates: Mapping[str, str]) -> "list[Unheeded]":
    """Return those of the changes that have no effect here."""
    others = {key: value for key, value in updates.items() if our_name(key) not in OUR_NAMES}
    if not others:
        return []
    # Only a key that is none of ours pays for the table of those without effect.
    from pyromq.config.idle import unheeded
    from pyromq.config.rocketmq import NO_EFFECT

    told = (
        unheeded(key, value, "changed while this runs") for key, value in others.items() if key in NO_EFFECT
    )
    return [one for one in told if one is not None]


def change_in_place(process: Process, updates: Mapping[str, str]) -> None:
    """Change settings that others hold on to; they see the change when they look next. See `changed`.

    Settings are frozen because nobody else may do this.
    """
    new = changed(process, updates)
    for field in dataclasses.fields(process):
        part, new_part = getattr(process, field.name), getattr(new, field.name)
        for setting in dataclasses.fields(part):
            object.__setattr__(part, setting.name, getattr(new_part, setting.name))


def own_copy(process: Process) -> Process:
    """Return the same settings, which nobody else holds on to."""
    return _replaced(process, {})


def _unknown(key: str, known: Mapping[str, Setting]) -> str | None:
    """Return what is wrong with a key that is no setting here; None if RocketMQ has one of that name."""
    # As in `idle_updates`.
    from pyromq.config.rocketmq import NO_EFFECT

    if key in NO_EFFECT:
        return None
    meant = nearest(key, [setting.key for setting in known.values()])
    return f"{key} is not a known setting" + (f"; did you mean {meant}?" if meant else "")


def _shown(setting: Setting, value: str) -> str:
    if setting.secret and value:
        return _STARS
    return _PASSWORD.sub(rf"\1{_STARS}@", value) if setting.form == "url" else value


def _replaced(process: Process, values: Mapping[str, Value]) -> Process:
    remaining = dict(values)
    parts: dict[str, Any] = {}
    for field in dataclasses.fields(process):
        part = getattr(process, field.name)
        mine = {one.name: remaining.pop(one.name) for one in settings_of(type(part)) if one.name in remaining}
        parts[field.name] = dataclasses.replace(part, **mine)
    return dataclasses.replace(process, **parts)
