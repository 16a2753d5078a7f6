"""The files that accounts are kept in, RocketMQ 4.9's: `plain_acl.yml`, and all YAML files below `acl/`.

    globalWhiteRemoteAddresses:
    - 10.10.103.*
    accounts:
    - accessKey: orders-service
      secretKey: a-long-secret
      whiteRemoteAddress:
      admin: false
      defaultTopicPerm: DENY
      defaultGroupPerm: SUB
      topicPerms:
      - orders=PUB|SUB
      groupPerms:
      - orders-billing=SUB
    dataVersion:
    - counter: 3
      timestamp: 1700000000000

Every value is taken as the text that stands there: a secret of digits stays what it is. Nothing here ever
puts a secret into an error. These functions block; a loop calls them in a worker thread.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyromq.broker.access.accounts import Account, read_permission, read_resources
from pyromq.config.account_rules import check_keys
from pyromq.config.address_patterns import Addresses
from pyromq.errors import ConfigError
from pyromq.wire.bodies.topic_bodies import DataVersion

DEFAULT_NAME: Final = "plain_acl.yml"
FOLDER_NAME: Final = "acl"
FILE_BYTES_MAX: Final = 16 * 1024 * 1024

_WHITE = "globalWhiteRemoteAddresses"
_ACCOUNTS = "accounts"
_VERSION = "dataVersion"
_NEW_FILE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class AccessFile:
    """One file, as it stands on disk. Its accounts are as they are written there, secrets and all."""

    path: Path
    white: tuple[str, ...]
    accounts: tuple[Mapping[str, Any], ...]
    version: DataVersion

    def __repr__(self) -> str:
        return f"AccessFile({str(self.path)!r}, {len(self.accounts)} accounts)"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountChange:
    """A change of an account by an operator; None leaves things as they are."""

    access_key: str
    secret_key: str
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] | None = None
    group_perms: list[str] | None = None

    def __repr__(self) -> str:
        return f"AccountChange({self.access_key!r})"


def find_files(folder: Path) -> list[Path]:
    """List the files of a folder that accounts may be in, the default one last."""
    found = [
        path
        for path in sorted((folder / FOLDER_NAME).rglob("*"))
        if path.suffix in (".yml", ".yaml") and path.is_file()
    ]
    default = folder / DEFAULT_NAME
    return [*found, default] if default.is_file() else found


def read_file(path: Path) -> AccessFile:
    """Read a file. Raises ConfigError, which names the file and the line or the field."""
    # Only now: most brokers have no such file, and it takes a megabyte.
    import yaml

    # What takes every value as text, compiled if there is such.
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ConfigError(f"{path} is larger than {FILE_BYTES_MAX} bytes")
        root = yaml.load(path.read_bytes(), loader)
    except OSError as error:
        raise ConfigError(f"{path} does not read: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        # Neither its text nor the error itself as cause: both show the line, and a secret may stand there.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}"
        problem = getattr(error, "problem", None) or "it is no YAML"
        raise ConfigError(f"{path}{where}: {problem}") from None
    if root in (None, ""):
        root = {}
    if not isinstance(root, dict):
        raise ConfigError(f"{path}: there must be names with values, as {_ACCOUNTS}")
    return AccessFile(
        path,
        white=tuple(_texts(root, _WHITE, path)),
        accounts=tuple(_maps(root, _ACCOUNTS, path)),
        version=_version(root, path),
    )


def read_account(fields: Mapping[str, Any], path: Path) -> Account:
    """Return the account that fields describe. Raises ConfigError, which names the account and the field."""
    access_key, secret_key = _text(fields, "accessKey"), _text(fields, "secretKey")
    try:
        check_keys(access_key, secret_key)
        white = _text(fields, "whiteRemoteAddress")
        return Account(
            access_key=access_key,
            secret=secret_key.encode(),
            white=Addresses([white] if white else []),
            is_admin=_text(fields, "admin").lower() == "true",
            default_topic=read_permission(_text(fields, "defaultTopicPerm")),
            default_group=read_permission(_text(fields, "defaultGroupPerm")),
            resources=read_resources(_texts(fields, "groupPerms", path), is_topic=False)
            | read_resources(_texts(fields, "topicPerms", path), is_topic=True),
        )
    except ConfigError as error:
        raise ConfigError(f"{path}, account {access_key!r}: {error}") from error


def with_change(file: AccessFile, change: AccountChange) -> AccessFile:
    """Return the file with an account changed, or added."""
    wanted = {
        "accessKey": change.access_key,
        "secretKey": change.secret_key,
        "whiteRemoteAddress": change.white_remote_address,
        "admin": change.admin,
        "defaultTopicPerm": change.default_topic_perm or None,
        "defaultGroupPerm": change.default_group_perm or None,
        "topicPerms": change.topic_perms,
        "groupPerms": change.group_perms,
    }
    before = next((one for one in file.accounts if one.get("accessKey") == change.access_key), {})
    after = {**before, **{name: value for name, value in wanted.items() if value is not None}}
    others = tuple(one for one in file.accounts if one is not before)
    return AccessFile(file.path, file.white, (*others, after), file.version)


def write_file(file: AccessFile) -> None:
    """Replace a file on disk by a whole new one, that nobody may read who could not before.

    Raises ConfigError when that is not possible.
    """
    import yaml

    version = {"counter": file.version.counter, "timestamp": file.version.timestamp}
    root = {
        _WHITE: list(file.white),
        _ACCOUNTS: [_as_typed(account) for account in file.accounts],
        _VERSION: [version],
    }
    text = yaml.safe_dump(root, sort_keys=False, allow_unicode=True, default_flow_style=False)
    temporary = file.path.with_name(file.path.name + ".tmp")
    try:
        mode = stat.S_IMODE(file.path.stat().st_mode) if file.path.exists() else _NEW_FILE_MODE
        with suppress(FileNotFoundError):
            temporary.unlink()
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _NEW_FILE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        temporary.replace(file.path)
    except OSError as error:
        raise ConfigError(f"{file.path} cannot be written: {error.strerror or error}") from error


def _as_typed(account: Mapping[str, Any]) -> dict[str, Any]:
    return {**account, "admin": str(account.get("admin", False)).lower() == "true"}


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name, "")
    if isinstance(value, (list, dict)):
        raise ConfigError(f"{name} must be one value")
    return str(value).strip()


def _texts(fields: Mapping[str, Any], name: str, path: Path) -> list[str]:
    values = fields.get(name) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ConfigError(f"{path}: {name} must be a list, a line each with a dash")
    return values


def _maps(fields: Mapping[str, Any], name: str, path: Path) -> Iterator[Mapping[str, Any]]:
    values = fields.get(name) or []
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise ConfigError(f"{path}: {name} must be a list of names with values")
    yield from values


def _version(root: Mapping[str, Any], path: Path) -> DataVersion:
    first = next(_maps(root, _VERSION, path), {})
    try:
        return DataVersion(timestamp=int(first.get("timestamp", 0)), counter=int(first.get("counter", 0)))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {_VERSION} must have a counter and a timestamp, both numbers") from error
