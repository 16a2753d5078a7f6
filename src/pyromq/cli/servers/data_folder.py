"""The folder of a server's files, and its default."""

import os
from collections.abc import Mapping
from pathlib import Path

from pyromq.errors import PyroError


class FolderUnusable(PyroError):
    """A folder cannot be made or written to."""


def default_folder(environment: Mapping[str, str]) -> Path:
    """Return the user's folder for our data: `pyromq` in $XDG_DATA_HOME, which is ~/.local/share if unset."""
    base = environment.get("XDG_DATA_HOME")
    return (Path(base) if base and Path(base).is_absolute() else Path.home() / ".local" / "share") / "pyromq"


def prepare(folder: Path) -> Path:
    """Make a folder if it is not there, and return its absolute path.

    Raises FolderUnusable, which says why.
    """
    absolute = folder.expanduser().absolute()
    try:
        absolute.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FolderUnusable(f"the data folder {absolute} cannot be made: {error.strerror}") from error
    if not os.access(absolute, os.W_OK | os.X_OK):
        raise FolderUnusable(f"the data folder {absolute} is not writable; choose another with --data")
    return absolute
