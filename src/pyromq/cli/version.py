"""Which version is installed."""


def installed_version() -> str:
    """Return the version of the installed distribution."""
    # Takes 30 ms to import, which only those pay who ask.
    from importlib.metadata import version

    return version("pyromq")
