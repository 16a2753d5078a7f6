"""The application that a command line names: `module:attribute`."""

import importlib
import sys
import traceback
from pathlib import Path
from typing import Final

from pyromq.app.application import App
from pyromq.errors import ConfigError

ATTRIBUTE: Final = "app"


def load_app(target: str) -> App:
    """Import an application; raise ConfigError that says what is not there, or what its module raised."""
    module_name, _, attribute = target.partition(":")
    attribute = attribute or ATTRIBUTE
    if not module_name or module_name.endswith(".py") or "/" in module_name:
        raise ConfigError(
            f"{target!r} is no module: write `pyromq run package.module:{ATTRIBUTE}`, without .py"
        )
    # As `python -m` does: what is in this folder can be imported.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise ConfigError(f"there is no module {error.name!r} here ({here}) or on the path") from error
        raise ConfigError(f"module {module_name} needs {error.name!r}, which is not installed") from error
    except ConfigError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else module_name
        raise ConfigError(f"module {module_name} cannot be imported: {error!r} ({place})") from error
    found = getattr(module, attribute, None)
    if isinstance(found, App):
        return found
    names = [name for name, value in vars(module).items() if isinstance(value, App)]
    hint = f"; it has {', '.join(f'{module_name}:{name}' for name in names)}" if names else ""
    raise ConfigError(f"{module_name} has no application named {attribute!r}{hint}")
