"""Access control of gRPC calls: the accounts and permissions of remoting, and the signature of RocketMQ 5."""

from typing import TYPE_CHECKING

from pyromq.broker.access.accounts import AccessDenied, Need
from pyromq.broker.grpc.grpc_callers import Credentials, credentials_of
from pyromq.net.http2.grpc_calls import GrpcCall
from pyromq.net.routes import Caller
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused

if TYPE_CHECKING:
    from pyromq.broker.access.control import AccessControl


class GrpcAccess:
    """Says whose a call is, and refuses those that may not be made."""

    def __init__(self, access: "AccessControl | None") -> None:
        self._access = access

    @property
    def is_wanted(self) -> bool:
        """Whether calls need an account."""
        return self._access is not None

    def admit(self, call: GrpcCall, need: Need) -> Caller | None:
        """Return whose a call is, None where there is no access control; raise GrpcRefused if it may not."""
        access = self._access
        if access is None:
            return None
        shown: Credentials | None = credentials_of(call)
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
