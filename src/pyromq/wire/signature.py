"""The signature of a request: who sends it, and that nobody changed it on its way.

The values of all fields in the order of their names, and then the body, are signed with the secret key:
HMAC-SHA1, in base64. RocketMQ 4.9.8: AclClientRPCHook, AclUtils.
"""

import hmac
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pyromq.kernel import IS_COMPILED
from pyromq.wire.command import Command

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.wire.signing_key import SigningKey
else:
    from pyromq._kernel.codec.sha1 import SigningKey

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"
#: RocketMQ's brokers leave this field of a query out of the signature, its Java client does not.
UNSIGNED_FLAG: Final = "_UNIQUE_KEY_QUERY"

Sign = Callable[[Command], None]


def signature(ext: Mapping[str, str], body: bytes, secret: bytes) -> str:
    """Return the signature of a request, as RocketMQ's brokers work it out."""
    return _sign(signed_text(ext), body, secret)


def is_signed(ext: Mapping[str, str], body: bytes, secret: bytes) -> bool:
    """Return whether a request carries its signature; takes no longer for a good guess than for a bad one."""
    given = ext.get(SIGNATURE, "").encode()
    if hmac.compare_digest(signature(ext, body, secret).encode(), given):
        return True
    if UNSIGNED_FLAG not in ext:
        return False
    text = "".join([ext[name] for name in sorted(ext) if name != SIGNATURE])
    return hmac.compare_digest(_sign(text, body, secret).encode(), given)


def signed_text(ext: Mapping[str, str]) -> str:
    """Return the text of a request's fields that is signed, together with the body."""
    return "".join([ext[name] for name in sorted(ext) if name not in (SIGNATURE, UNSIGNED_FLAG)])


def signing_key(secret: bytes) -> SigningKey:
    """Return a key that is kept for many signatures."""
    return SigningKey(secret)


def signer(access_key: str, secret_key: str, security_token: str = "") -> Sign:
    """Return what signs a request in place; it may be signed again, for it may be sent again."""
    own = {ACCESS_KEY: access_key}
    if security_token:
        own[SECURITY_TOKEN] = security_token
    signed_by = signing_key(secret_key.encode()).signature

    def sign(command: Command) -> None:
        fields = {**(command.ext or {}), **own}
        fields.pop(SIGNATURE, None)
        fields[SIGNATURE] = signed_by(signed_text(fields).encode(), command.body)
        command.ext = fields

    return sign


def _sign(text: str, body: bytes, secret: bytes) -> str:
    return b64encode(hmac.digest(secret, text.encode() + body, "sha1")).decode()
