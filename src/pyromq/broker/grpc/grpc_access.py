"""Access control of gRPC calls: the accounts and permissions of remoting, and the signature of RocketMQ 5.

    let in ─► learnt: account, need, key      the next call with the same need
                                              ─► its signature is worked out by the kernel, as for every call

What is learnt follows from one set of rules (`control.Rules`), and the kernel forgets it when others hold.
Whatever does not match is looked at here, and refused here.
"""

from typing import TYPE_CHECKING, Final

from pyromq.broker.access.accounts import AccessDenied, Need
from pyromq.broker.grpc.grpc_callers import Credentials, credentials_of
from pyromq.kernel import IS_COMPILED
from pyromq.net.http2.grpc_calls import GrpcCall
from pyromq.net.routes import Caller
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.signature import signing_key

if TYPE_CHECKING:
    from pyromq._kernel.requests.grpc_signatures import GrpcSignatures
    from pyromq.broker.access.control import AccessControl, Rules
    from pyromq.wire.signing_key import SigningKey

#: Needs with more topics and groups are looked at each time, and so are long names.
_NAMES_MAX: Final = 2
_NEED_BYTES_MAX: Final = 512


class GrpcAccess:
    """Says whose a call is, and refuses those that may not be made."""

    def __init__(self, access: "AccessControl | None") -> None:
        self._access = access
        #: What the kernel knows of calls that were let in; None: there is no access control, or no kernel.
        self.signatures: GrpcSignatures | None = None
        self._keys: dict[str, SigningKey] = {}
        self._keys_of: Rules | None = None
        if access is not None and IS_COMPILED:
            # Only now: without a compiler there is nothing to import.
            from pyromq._kernel.requests import grpc_signatures

            self.signatures = grpc_signatures.GrpcSignatures(lambda: access.rules)

    @property
    def is_wanted(self) -> bool:
        """Whether calls need an account."""
        return self._access is not None

    def admit(self, call: GrpcCall, need: Need) -> Caller | None:
        """Return whose a call is, None where there is no access control; raise GrpcRefused if it may not."""
        access = self._access
        if access is None:
            return None
        words = None if self.signatures is None else words_of(need)
        if self.signatures is not None and words is not None:
            known = self.signatures.caller_of(call, words)
            if known is not None:
                return known
        rules, shown = access.rules, credentials_of(call)
        caller = self._admit(access, call, shown, need)
        if words is not None:
            self._learn(rules, call, shown, words, caller)
        return caller

    @staticmethod
    def _admit(access: "AccessControl", call: GrpcCall, shown: Credentials | None, need: Need) -> Caller:
        try:
            return access.admit_signed(
                call.peer,
                "" if shown is None else shown.access_key,
                (lambda _: False) if shown is None else shown.are_signed_with,
                need,
                what=call.method.rpartition("/")[2],
            )
        except AccessDenied as error:
            raise GrpcRefused(GrpcCode.UNAUTHORIZED, str(error)) from error

    def _learn(
        self, rules: "Rules", call: GrpcCall, shown: Credentials | None, words: bytes, caller: Caller
    ) -> None:
        """Let calls in like one that these rules let in."""
        assert self.signatures is not None
        if not caller.name:
            self.signatures.learn_host(rules, call.peer_host_bytes, caller)
        elif shown is not None and shown.access_key.isascii():
            if rules is not self._keys_of:
                self._keys.clear()
                self._keys_of = rules
            key = self._keys.get(shown.access_key)
            if key is None:
                key = self._keys[shown.access_key] = signing_key(rules.accounts[shown.access_key].secret)
            self.signatures.learn(rules, shown.access_key.encode(), key, words, caller)


def words_of(need: Need) -> bytes | None:
    """Return a need as the kernel writes it, None for one that it does not know."""
    if need.is_admin or not 0 < len(need.resources) <= _NAMES_MAX:
        return None
    words = b""
    for name, permission in need.resources.items():
        if not name.isascii():
            return None
        words += bytes((permission,)) + (len(name) & 0xFFFF).to_bytes(2, "big") + name.encode()
    return words if len(words) <= _NEED_BYTES_MAX else None
