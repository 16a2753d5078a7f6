"""Signed requests, for brokers that ask who is there (`aclEnable`).

The values of all fields in the order of their names, and then the body, are signed with the secret key:
HMAC-SHA1, in base64. RocketMQ 4.9.8: AclClientRPCHook, AclUtils.
"""

import hmac
from base64 import b64encode
from collections.abc import Callable
from typing import Final

from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError
from pyromq.wire.command import Command

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"

Sign = Callable[[Command], None]


def signer(settings: ClientSettings) -> Sign | None:
    """Return what signs a request in place, or None when there is no key to sign with."""
    if bool(settings.access_key) != bool(settings.secret_key):
        raise ConfigError("access_key and secret_key go together; give both, or neither")
    if not settings.access_key:
        return None
    own = {ACCESS_KEY: settings.access_key}
    if settings.security_token:
        own[SECURITY_TOKEN] = settings.security_token
    key = settings.secret_key.encode()

    def sign(command: Command) -> None:
        # A request may be sent again, elsewhere.
        fields = {name: text for name, text in (command.ext or {}).items() if name != SIGNATURE} | own
        content = "".join([fields[name] for name in sorted(fields)]).encode() + command.body
        fields[SIGNATURE] = b64encode(hmac.digest(key, content, "sha1")).decode()
        command.ext = fields

    return sign
