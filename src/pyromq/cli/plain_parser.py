"""The small parser for options of commands that start without typer.

It understands a command line that is right and asks for no help, in the forms `--name value`, `--name=value`
and `-n value`. Everything else is left to typer, which has the words for it.
"""

from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from pyromq.cli.plain_options import PlainOption, options_of

Options = TypeVar("Options")


class _NotUnderstoodError(Exception):
    """The words are wrong, ask for help, or have a form that only typer reads."""


def read_plainly(kind: type[Options], words: Sequence[str]) -> Options | None:
    """Return the options of a dataclass with the values that the words give; None: typer must read them."""
    options = options_of(kind)
    types = {name: _without_none(hint) for name, hint in get_type_hints(kind).items()}
    fields = {spelling: name for name, option in options.items() for spelling in option.names}
    values: dict[str, Any] = {}
    left = iter(words)
    try:
        for word in left:
            spelling, equals, value = word.partition("=")
            name = fields.get(spelling if word.startswith("--") else word)
            if name is None:
                return None
            if types[name] is bool:
                if equals:
                    return None
                values[name] = True
                continue
            text = value if equals and word.startswith("--") else _next(left)
            if get_origin(types[name]) is list:
                values.setdefault(name, []).append(text)
            else:
                values[name] = _converted(text, types[name], options[name])
    except _NotUnderstoodError:
        return None
    return kind(**values)


def _without_none(hint: Any) -> Any:
    if get_origin(hint) is UnionType:
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    return hint


def _next(left: Iterator[str]) -> str:
    """Return the word behind an option; one that looks like an option itself may be a mistake."""
    text = next(left, "-")
    if text.startswith("-"):
        raise _NotUnderstoodError
    return text


def _converted(text: str, kind: Any, option: PlainOption) -> Any:
    try:
        value = kind(text)
    except ValueError as error:
        raise _NotUnderstoodError from error
    too_small = option.least is not None and value < option.least
    too_large = option.most is not None and value > option.most
    if too_small or too_large:
        raise _NotUnderstoodError
    return value
