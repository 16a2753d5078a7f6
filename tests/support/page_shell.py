"""Command lines of the documentation, read without running them."""

import re
from collections.abc import Iterator

from command_line import complaint_about, words_of

from pyromq.config.load import load, read_assignments
from pyromq.config.settings import BrokerProcess, NamesrvProcess, UpProcess
from pyromq.errors import ConfigError

_OURS = re.compile(r"(?<![\w./'-])(pyromq|mqadmin) (?=[a-z-])")
_VARIABLE = re.compile(r"\$\([^()]*\)|\$\{[^}]*\}|\$\w+")
_KINDS = {"up": UpProcess, "broker": BrokerProcess, "namesrv": NamesrvProcess}
#: Words for what the reader has, and an example where the command looks at it.
_EXAMPLES = {"HOST:PORT": "127.0.0.1:10911"}


def faults_of(text: str) -> list[str]:
    """Return what the program has against command lines that call it."""
    faults = []
    for command in commands_of(text):
        words = words_of(command)
        if command.startswith("mqadmin"):
            words = ["admin", *words]
        fault = complaint_about(words) or _settings_fault(words)
        if fault is not None:
            faults.append(f"{command}: {fault}")
    return faults


def commands_of(text: str) -> Iterator[str]:
    """Yield the calls of our program, and of mqadmin, whose names and options it has."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in joined.splitlines():
        if line.lstrip().startswith("#") or '"$@"' in line:
            continue
        for found in _OURS.finditer(line):
            rest = _VARIABLE.sub("9876", line[found.start() :])
            for word, example in _EXAMPLES.items():
                rest = rest.replace(word, example)
            yield _up_to_its_end(rest)


def _up_to_its_end(command: str) -> str:
    """Return a command without what follows in its line; quotation marks around it may be open."""
    for end in (")", ";"):
        head, found, _ = command.partition(end)
        if found and head.count("'") % 2 == 0 and head.count('"') % 2 == 0:
            command = head
    for mark in ("'", '"'):
        if command.count(mark) % 2 == 1:
            command = command[: command.rindex(mark)]
    return command


def _settings_fault(words: list[str]) -> str | None:
    if not words or words[0] not in _KINDS:
        return None
    given = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--set"]
    try:
        load(_KINDS[words[0]], read_assignments(given))
    except ConfigError as error:
        return str(error)
    return None
