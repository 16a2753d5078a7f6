"""The client of a gRPC call: what its headers say of it, and what it signed.

A client is its `x-mq-client-id`, never a connection: one may use several. What it says of its language and
version is only shown to operators; an unknown word is no error.
"""

import binascii
import hmac
from dataclasses import dataclass
from typing import Final

from pyromq.codes import VERSION_5, Language
from pyromq.name_rules import shortened
from pyromq.net.http2.grpc_calls import GrpcCall
from pyromq.net.routes import Caller
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.grpc.grpc_names import CLIENT_ID_CHARACTERS_MAX, has_control_character

CLIENT_ID: Final = "x-mq-client-id"
LANGUAGE: Final = "x-mq-language"
CLIENT_VERSION: Final = "x-mq-client-version"
SIGNED_TEXT: Final = "x-mq-date-time"
AUTHORIZATION: Final = "authorization"
#: The first word of an authorization; the rest is `name=value`, joined by commas.
_ALGORITHM: Final = "MQv2-HMAC-SHA1"
_AUTHORIZATION_CHARACTERS_MAX: Final = 4_096
_LANGUAGES: Final = {language.name: int(language) for language in Language}
#: The version that gRPC clients are shown with, as RocketMQ shows them; their own is a text.
GRPC_CLIENT_VERSION: Final = VERSION_5


@dataclass(frozen=True, slots=True)
class Credentials:
    """The account that a client shows, and what it signed."""

    access_key: str
    signature: bytes
    signed: bytes

    def are_signed_with(self, secret: bytes) -> bool:
        """Return whether they were signed with a secret; a good guess takes no less time than a bad one."""
        return hmac.compare_digest(hmac.digest(secret, self.signed, "sha1"), self.signature)


@dataclass(frozen=True, slots=True)
class GrpcCaller:
    """The client that made a call; `account` is None where there is no access control."""

    client_id: str
    language: int
    version: str
    peer: str
    peer_host_bytes: bytes
    account: Caller | None = None

    @property
    def is_node(self) -> bool:
        """Whether it is RocketMQ's SDK for Node, which says that its language is HTTP."""
        return self.language == Language.HTTP


def client_id_of(call: GrpcCall) -> str:
    """Return the id of the client; raise GrpcRefused when it says none."""
    client_id = call.metadata.get(CLIENT_ID, "")
    if not client_id.strip():
        raise GrpcRefused(GrpcCode.CLIENT_ID_REQUIRED, f"the header {CLIENT_ID} is missing or blank")
    if len(client_id) > CLIENT_ID_CHARACTERS_MAX or has_control_character(client_id):
        raise GrpcRefused(
            GrpcCode.CLIENT_ID_REQUIRED,
            f"the header {CLIENT_ID} is no id: {shortened(client_id)} is too long or has a control character",
        )
    return client_id


def caller_of(call: GrpcCall, client_id: str, account: Caller | None) -> GrpcCaller:
    """Return who made a call."""
    headers = call.metadata
    return GrpcCaller(
        client_id,
        _LANGUAGES.get(headers.get(LANGUAGE, "").upper(), int(Language.OTHER)),
        headers.get(CLIENT_VERSION, ""),
        call.peer,
        call.peer_host_bytes,
        account,
    )


def credentials_of(call: GrpcCall) -> Credentials | None:
    """Return what a call shows of its account; None when it shows nothing that can be read.

    MQv2-HMAC-SHA1 Credential=KEY/region/service, SignedHeaders=x-mq-date-time, Signature=HEX
    """
    headers = call.metadata
    text = headers.get(AUTHORIZATION, "")
    if len(text) > _AUTHORIZATION_CHARACTERS_MAX:
        return None
    algorithm, _, rest = text.partition(" ")
    if algorithm != _ALGORITHM:
        return None
    fields = {}
    for part in rest.split(","):
        name, _, value = part.strip().partition("=")
        fields[name.strip()] = value.strip()
    try:
        signature = binascii.unhexlify(fields.get("Signature", ""))
    except ValueError:
        return None
    signed = headers.get(SIGNED_TEXT, "").encode("utf-8", "replace")
    return Credentials(fields.get("Credential", "").partition("/")[0], signature, signed)
