"""The choice between the session on nghttp2, which is compiled, and the one on h2.

The compiled one needs the kernel, and libnghttp2.so.14, which is looked for when it is imported; curl, git
and others bring it. Where either is missing, h2 does the same, many times slower. So `GrpcServer` takes the
one that is there; without both it cannot be made, and says what to install.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from pyromq.errors import ConfigError
from pyromq.kernel import WHY_PURE

if TYPE_CHECKING:
    from pyromq.net.http2.grpc_session import GrpcSession

_COMPILED = "pyromq._kernel.http2.sessions"
_REMEDY = "pip install 'pyromq[grpc]'"

#: Why the session on h2 runs, None when the compiled one does.
WHY_PLAIN: str | None = WHY_PURE


def session_class() -> type[GrpcSession]:
    """Return the class of sessions; raise ConfigError when there is neither."""
    global WHY_PLAIN
    if WHY_PURE is None:
        try:
            return cast("type[GrpcSession]", import_module(_COMPILED).GrpcSession)
        except ImportError as error:
            WHY_PLAIN = str(error)
    try:
        from pyromq.net.http2.grpc_session import GrpcSession as Plain
    except ImportError as error:
        raise ConfigError(
            f"gRPC needs the package h2, which is not installed ({error}): {_REMEDY}, or switch it off with "
            "grpcServerPort=0"
        ) from error
    return Plain


def describe() -> str:
    """Return one line for people that says on what gRPC stands here."""
    try:
        is_compiled = session_class().__module__ == _COMPILED
    except ConfigError as error:
        return f"no gRPC: {error}"
    return "gRPC on nghttp2" if is_compiled else f"gRPC on h2 ({WHY_PLAIN})"
