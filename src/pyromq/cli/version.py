"""Which version is installed."""

from pyromq.release import VERSION


def installed_version() -> str:
    """Return the version of the installed distribution."""
    return VERSION
