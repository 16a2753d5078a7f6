"""Settings from the command line, the environment and files, and how they are printed."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pyromq.cli import output
from pyromq.cli.exit_status import FAILED
from pyromq.config.live import as_properties
from pyromq.config.load import (
    GivenSetting,
    Loaded,
    Process,
    load,
    odd_variables,
    read_assignments,
    read_environment,
    read_file,
    settings_by_name,
)


def load_settings(
    kind: type[Process],
    *,
    file: Path | None,
    assignments: Sequence[str] | None,
    flags: Sequence[GivenSetting],
    is_check: bool = False,
) -> Loaded[Process]:
    """Load a process's settings from all their sources, and warn of those that have no effect."""
    given = [
        *(read_file(file) if file is not None else ()),
        *read_environment(os.environ, kind),
        *read_assignments(assignments or ()),
        *flags,
    ]
    loaded: Loaded[Process] = load(kind, given)
    for warning in (*(() if is_check else loaded.warnings), *odd_variables(os.environ)):
        output.warn(warning)
    return loaded


def check_settings(loaded: Loaded[Process], *, is_json: bool) -> None:
    """Print each setting that was given and has no effect; end with a failure if one changes a promise."""
    for one in loaded.unheeded:
        if is_json:
            output.say_json(one.as_record())
        else:
            output.say(str(one))
    promises = [one for one in loaded.unheeded if one.setting.promise]
    if not is_json:
        output.say(_verdict(len(loaded.unheeded), len(promises)))
    if promises:
        sys.exit(FAILED)


def _verdict(idle: int, promises: int) -> str:
    if not idle:
        return "every setting has its effect, or RocketMQ's default"
    return f"without effect: {idle}; of these, {promises} would change what is promised"


def flags(**values: tuple[str, str | int | None]) -> list[GivenSetting]:
    """Return what was given by options of their own: setting=(option, value), None for not given."""
    return [
        GivenSetting(name, value, option) for name, (option, value) in values.items() if value is not None
    ]


def print_settings(loaded: Loaded[Process], *, is_json: bool) -> None:
    """Print every setting with its value and where it came from."""
    shown = as_properties(loaded.process)
    sources = {
        setting.key: loaded.sources.get(setting.name, "default")
        for setting in settings_by_name(type(loaded.process)).values()
    }
    if is_json:
        for key, value in shown.items():
            output.say_json({"key": key, "value": value, "source": sources[key]})
        return
    for line in output.columns([(key, value, sources[key]) for key, value in shown.items()]):
        output.say(line)
