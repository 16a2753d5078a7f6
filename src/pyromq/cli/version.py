"""The version of this program."""

from dataclasses import dataclass

from pyromq.cli import output
from pyromq.kernel import describe
from pyromq.release import VERSION


@dataclass(frozen=True, slots=True)
class VersionOptions:
    """The options of `pyromq version`: none."""


def installed_version() -> str:
    """Return the version of the installed distribution."""
    return VERSION


def version(_given: VersionOptions) -> None:
    """Print the version, and at which speed it runs."""
    output.say(f"pyromq {installed_version()}, {describe()}")
