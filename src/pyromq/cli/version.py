"""The version of this program, and what it runs with."""

import re
from dataclasses import dataclass
from typing import Any, Final

from pyromq.cli import output
from pyromq.cli.plain_options import JSON, field_of
from pyromq.kernel import WHY_PURE, describe
from pyromq.release import VERSION

#: For whoever works on PyroMQ itself.
OWN_EXTRAS: Final = frozenset({"dev"})


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionOptions:
    """The options of `pyromq version`."""

    as_json: bool = field_of(JSON, default=False)


def installed_version() -> str:
    """Return the version of the installed distribution."""
    return VERSION


def version(given: VersionOptions) -> None:
    """Print the version, and at which speed it runs; with --json also Python, platform and extras."""
    if given.as_json:
        output.say_json(described())
        return
    output.say(f"pyromq {installed_version()}, {describe()}")


def described() -> dict[str, Any]:
    """Return what a program wants to know of this installation."""
    # Only now: each of them takes longer than to print a line.
    import platform

    return {
        "version": installed_version(),
        "kernel": {"compiled": WHY_PURE is None, "why_not": WHY_PURE},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "extras": installed_extras(),
    }


def installed_extras() -> list[str]:
    """Return the extras all of whose packages are installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        asked = distribution("pyromq").requires or []
    except PackageNotFoundError:
        return []
    needed: dict[str, list[str]] = {}
    for line in asked:
        package, _, marker = line.partition(";")
        extra = re.search(r"""extra == ['"]([^'"]+)['"]""", marker)
        name = re.match(r"[\w.-]+", package)
        if extra is not None and name is not None:
            needed.setdefault(extra[1], []).append(name[0])
    return sorted(
        extra for extra, names in needed.items() if extra not in OWN_EXTRAS and all(map(_is_installed, names))
    )


def _is_installed(name: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
