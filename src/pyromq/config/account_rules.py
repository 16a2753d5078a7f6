"""The rules for accounts of RocketMQ's access control, for brokers and tools (4.9.8: Permission)."""

from collections.abc import Iterable
from enum import IntFlag
from typing import Final

from pyromq.errors import ConfigError

#: Shorter access keys and secret keys are refused, as by RocketMQ.
KEY_LENGTH_MIN: Final = 7


class Permission(IntFlag):
    """The permission of an account on a topic or a group."""

    DENY = 1
    ANY = 2
    PUB = 4
    SUB = 8


#: The words of account files.
PERMISSION_WORDS: Final = {
    "PUB": Permission.PUB,
    "SUB": Permission.SUB,
    "PUB|SUB": Permission.PUB | Permission.SUB,
    "SUB|PUB": Permission.PUB | Permission.SUB,
    "DENY": Permission.DENY,
}


def check_resources(lines: Iterable[str]) -> None:
    """Raise ConfigError for a line with an unknown permission; only files may have such lines, orders not."""
    for line in lines:
        items = [item for item in line.split("=") if item]
        if len(items) != 2:
            raise ConfigError(
                f"Parse Resource format error for {line}. The expected resource format is 'Res=Perm'. "
                "For example: topicA=SUB"
            )
        if items[1].strip() not in PERMISSION_WORDS:
            raise ConfigError(
                f"Parse resource permission error for {line}. "
                "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
            )


def check_keys(access_key: str, secret_key: str) -> None:
    """Raise ConfigError when a key is missing or too short; the text never has the secret."""
    if len(access_key) < KEY_LENGTH_MIN or len(secret_key) < KEY_LENGTH_MIN:
        raise ConfigError(
            f"The accessKey={access_key} and its secretKey cannot be null and length should longer than 6"
        )
