"""The choice between the session on nghttp2, which is compiled, and the one on h2.

The compiled one needs the kernel, and libnghttp2.so.14, which is looked for when it is imported; curl, git
and others bring it. Where either is missing, h2 does the same, many times slower. So `GrpcServer` takes the
one that is there; without both it cannot be made, and says what to install.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from pyromq.errors import ConfigError
from pyromq.kernel import WHY_PURE

if TYPE_CHECKING:
    from pyromq.net.http2.grpc_session import GrpcSession

_COMPILED = "pyromq._kernel.http2.sessions"
_REMEDY = "pip install 'pyromq[grpc]'"


def session_class() -> type[GrpcSession]:
    """Return the class of sessions; raise ConfigError when there is neither."""
    if why_plain() is None:
        return cast("type[GrpcSession]", import_module(_COMPILED).GrpcSession)
    try:
        from pyromq.net.http2.grpc_session import GrpcSession as Plain
    except ImportError as error:
        raise ConfigError(
            f"gRPC needs the package h2, which is not installed ({error}): {_REMEDY}, or switch it off with "
            "grpcServerPort=0"
        ) from error
    return Plain


def check_session() -> None:
    """Raise ConfigError when there is neither; nothing is imported if h2 is installed, as it usually is."""
    if find_spec("h2") is None:
        session_class()


def why_plain() -> str | None:
    """Return why the session on nghttp2 does not run, None when it does."""
    if WHY_PURE is not None:
        return WHY_PURE
    try:
        import_module(_COMPILED)
    except ImportError as error:
        return f"{error}; apt-get install libnghttp2-14"
    return None


def describe() -> str:
    """Return one line for people that says on what gRPC stands here."""
    try:
        session_class()
    except ConfigError as error:
        return f"no gRPC: {error}"
    why = why_plain()
    return "gRPC on nghttp2" if why is None else f"gRPC on h2 ({why})"
