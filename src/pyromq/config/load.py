"""Settings from where they come: defaults < file < environment < flags.

Each source is read into a list of `GivenSetting`, which remembers where it stood; `load` takes them in rising
order of precedence and builds the settings of a process. Nothing is guessed: every key that is not known and
every value that does not read is named, with its source, all of them in one ConfigError.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyromq.config.checks import SettingConflict, conflicts
from pyromq.config.field import Setting, settings_of
from pyromq.config.properties_file import read_properties
from pyromq.config.setting_names import OUR_NAMES, our_name
from pyromq.config.settings import BrokerProcess, NamesrvProcess, UpProcess
from pyromq.config.values import Value, read_value
from pyromq.errors import ConfigError

if TYPE_CHECKING:
    from pyromq.config.idle import Unheeded

#: A process's settings: a frozen class whose fields are settings classes.
Process = TypeVar("Process", BrokerProcess, NamesrvProcess, UpProcess)

VARIABLE_PREFIX = "PYROMQ_"


@dataclasses.dataclass(frozen=True, slots=True)
class GivenSetting:
    """One key and its value as found, and where: `broker.conf:12`, `--set`, a variable's name."""

    key: str
    value: Value
    source: str


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded(Generic[Process]):
    """A process's settings, where each that is no default came from, and those without effect."""

    process: Process
    sources: Mapping[str, str]
    #: Settings that were given, differ from RocketMQ's default, and have no effect.
    unheeded: "tuple[Unheeded, ...]" = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the user, a line each."""
        return tuple(map(str, self.unheeded))


def load(kind: type[Process], given: Iterable[GivenSetting]) -> Loaded[Process]:
    """Build the settings of a process; what is given later wins.

    Raises ConfigError with a line for each unknown key and unreadable value; if all read, with one for each
    pair that does not go together.
    """
    known = settings_by_name(kind)
    problems: list[str] = []
    idle: dict[str, Unheeded | None] = {}
    values: dict[str, Value] = {}
    sources: dict[str, str] = {}
    for item in given:
        name = our_name(item.key)
        if name in known:
            try:
                values[name] = read_value(known[name], item.value)
                sources[name] = item.source
            except ValueError as error:
                problems.append(f"{item.source}: {item.key}: {error}")
        elif (problem := _unusable(item, known)) is not None:
            problems.append(problem)
        else:
            idle[item.key] = _told(item)
    if problems:
        raise ConfigError("\n".join(problems))
    process: Process = build(kind, values)
    if found := _conflicts(process):
        raise ConfigError("\n".join(_describe(conflict, known, sources) for conflict in found))
    return Loaded(process, sources, tuple(filter(None, idle.values())))


def build(kind: type[Process], values: Mapping[str, Value]) -> Process:
    """Make a process's settings from values by our names; the first part that has a name gets it.

    Values are taken as they are. Raises ConfigError for a name that no part has.
    """
    remaining = dict(values)
    parts: dict[str, Any] = {}
    for field, owner in parts_of(kind).items():
        mine = {one.name: remaining.pop(one.name) for one in settings_of(owner) if one.name in remaining}
        parts[field] = owner(**mine)
    if remaining:
        raise ConfigError(f"{', '.join(remaining)}: no setting of {kind.__name__}")
    return kind(**parts)


def parts_of(kind: type[Process]) -> dict[str, type[Any]]:
    """Return the settings classes that a process's settings consist of, by field."""
    return {field.name: type(field.default) for field in dataclasses.fields(kind)}


def settings_by_name(kind: type[Process]) -> dict[str, Setting]:
    """Return the settings that a process has, by our names."""
    found: dict[str, Setting] = {}
    for owner in parts_of(kind).values():
        for setting in settings_of(owner):
            found.setdefault(setting.name, setting)
    return found


def read_file(path: str | Path) -> list[GivenSetting]:
    """Read a settings file: TOML if it ends in `.toml`, else Java properties as RocketMQ's.

    Raises ConfigError if it cannot be read or is not of its format.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if str(path).endswith(".toml"):
        return _read_toml(path, raw)
    try:
        lines = read_properties(_decode(raw))
    except ValueError as error:
        raise ConfigError(f"{path}:{error}") from error
    return [GivenSetting(line.key, line.value, f"{path}:{line.number}") for line in lines]


def read_assignments(texts: Iterable[str]) -> list[GivenSetting]:
    """Read the `KEY=VALUE` of each `--set`. Raises ConfigError for one without `=`."""
    given = []
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"--set {text}: expected KEY=VALUE, as brokerName=broker-b")
        given.append(GivenSetting(key.strip(), value.strip(), "--set"))
    return given


def read_environment(environment: Mapping[str, str], kind: type[Process]) -> list[GivenSetting]:
    """Read RocketMQ's NAMESRV_ADDR, and our PYROMQ_BROKER_NAME and the like.

    Variables that name no setting of this process are left alone: other programs, and Kubernetes for a
    service called pyromq, have names of that form too.
    """
    known = settings_by_name(kind)
    given = []
    if environment.get("NAMESRV_ADDR") and "namesrv_addr" in known:
        given.append(GivenSetting("namesrv_addr", environment["NAMESRV_ADDR"], "NAMESRV_ADDR"))
    for name in known:
        variable = VARIABLE_PREFIX + name.upper()
        if variable in environment:
            given.append(GivenSetting(name, environment[variable], variable))
    return given


def odd_variables(environment: Mapping[str, str]) -> list[str]:
    """Name variables that look like a misspelt setting, with what was probably meant."""
    ours = {VARIABLE_PREFIX + name.upper() for name in OUR_NAMES}
    odd = []
    for variable in sorted(environment):
        if variable.startswith(VARIABLE_PREFIX) and variable not in ours:
            meant = nearest(variable, ours, cutoff=0.9)
            if meant is not None:
                odd.append(f"{variable} is not a setting and was not used; did you mean {meant}?")
    return odd


def nearest(word: str, words: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the word that is nearest to a misspelt one, if any is near; case does not count."""
    # Only a mistake pays for difflib's import.
    import difflib

    by_lower = {known.lower(): known for known in words}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[close[0]] if close else None


def _told(item: GivenSetting) -> "Unheeded | None":
    """Return what to tell of a key without effect, if anything."""
    # Only a key that is no setting of this process pays for the table of those without effect.
    from pyromq.config.idle import unheeded

    return unheeded(item.key, item.value, item.source)


def _unusable(item: GivenSetting, known: Mapping[str, Setting]) -> str | None:
    """Return what is wrong with a key that this process does not have, or None if it may be ignored."""
    # As above.
    from pyromq.config.rocketmq import NO_EFFECT, REFUSED, Meaning, meaning_of

    if item.key in REFUSED and str(item.value).strip().lower() == "true":
        return f"{item.source}: {item.key}: cannot be true here: {REFUSED[item.key]}"
    if meaning_of(item.key) is not Meaning.UNKNOWN:
        return None
    # A word with underscores is compared with our spelling, any other with RocketMQ's.
    names = known.keys() if "_" in item.key else {setting.key for setting in known.values()}
    meant = nearest(item.key, names) or nearest(item.key, NO_EFFECT)
    hint = f"; did you mean {meant}?" if meant else "; `pyromq broker --print-settings` lists all"
    return f"{item.source}: {item.key} is not a known setting{hint}"


def _conflicts(process: BrokerProcess | NamesrvProcess | UpProcess) -> list[SettingConflict]:
    if isinstance(process, NamesrvProcess):
        return conflicts(net=process.net)
    return conflicts(broker=process.broker, store=process.store, net=process.net)


def _describe(conflict: SettingConflict, known: Mapping[str, Setting], sources: Mapping[str, str]) -> str:
    keys = [f"{known[name].key} ({sources.get(name, 'default')})" for name in conflict.names]
    return f"{' and '.join(keys)}: {conflict.reason}"


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        # What Java takes every properties file for.
        return raw.decode("latin-1")


def _read_toml(path: str | Path, raw: bytes) -> list[GivenSetting]:
    # Only a TOML file pays for its parser.
    import tomllib

    text = _decode(raw)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    lines = text.splitlines()
    given = []
    for key, value in _flatten(table):
        source = f"{path}:{_line_of(key, lines)}"
        if not isinstance(value, str | int):
            raise ConfigError(
                f"{source}: {key}: expected a text, a whole number, true or false, not {value!r}"
            )
        given.append(GivenSetting(key, value, source))
    return given


def _flatten(table: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for key, value in table.items():
        # A table such as [broker] or [store] only groups; RocketMQ's names are unique without it.
        if isinstance(value, dict):
            yield from _flatten(value)
        else:
            yield key, value


def _line_of(key: str, lines: list[str]) -> int:
    for number, line in enumerate(lines, start=1):
        if line.partition("=")[0].strip().strip("\"'") == key:
            return number
    return 1
