"""Credentials and TLS settings of the commands, for brokers with access control.

They come from the environment, under the names of a client's settings: PYROMQ_ACCESS_KEY and
PYROMQ_SECRET_KEY, PYROMQ_USE_TLS, PYROMQ_TLS_CLIENT_TRUST_CERT_PATH, and so on. Keys may stand in a file
instead, which is mqadmin's own tools.yml: PYROMQ_CREDENTIALS names it, else it is looked for in
$ROCKETMQ_HOME/conf. None of this is an option of a command: everybody on a machine can see those.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyromq.config.settings import ClientSettings

FILE_VARIABLE = "PYROMQ_CREDENTIALS"
_PREFIX = "PYROMQ_"
_KEYS = {"accessKey": "access_key", "secretKey": "secret_key", "securityToken": "security_token"}


def client_settings(environment: Mapping[str, str] | None = None, **more: Any) -> "ClientSettings":
    """Return a client's settings with what the environment says, and more of them.

    Raises ConfigError, which never has a secret, for a value or a file that does not read.
    """
    from pyromq.config.field import settings_of
    from pyromq.config.settings import ClientSettings
    from pyromq.config.values import read_value
    from pyromq.errors import ConfigError

    environment = os.environ if environment is None else environment
    values: dict[str, Any] = _from_file(environment)
    for setting in settings_of(ClientSettings):
        variable = _PREFIX + setting.name.upper()
        if variable not in environment or not _is_ours(setting.name):
            continue
        try:
            values[setting.name] = read_value(setting, environment[variable])
        except ValueError as error:
            raise ConfigError(f"{variable}: {error}") from error
    return ClientSettings(**values | more)


def _is_ours(name: str) -> bool:
    return name in _KEYS.values() or name == "use_tls" or name.startswith("tls_client_")


def _from_file(environment: Mapping[str, str]) -> dict[str, Any]:
    from pyromq.errors import ConfigError

    named, home = environment.get(FILE_VARIABLE), environment.get("ROCKETMQ_HOME")
    if named:
        path = Path(named)
    elif home and (path := Path(home) / "conf" / "tools.yml").is_file():
        pass
    else:
        return {}
    import yaml

    try:
        # Every value as the text that stands there: a secret of digits is one.
        found = yaml.load(path.read_bytes(), yaml.BaseLoader) or {}
    except OSError as error:
        raise ConfigError(f"{path} does not read: {error.strerror or error}") from error
    except yaml.YAMLError:
        # Not the error's text: it shows the line, and the secret may stand there.
        raise ConfigError(
            f"{path} is no YAML; it should have two lines, accessKey: … and secretKey: …"
        ) from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path} should have two lines, accessKey: … and secretKey: …")
    return {name: found[key].strip() for key, name in _KEYS.items() if isinstance(found.get(key), str)}
