"""A server of gRPC: `Server` with links that speak it, TLS and plain connections on one port.

Where TLS is not set up, a certificate of our own is made: four of seven SDKs use TLS unless they are told
otherwise. `tlsServerMode=disabled` switches TLS off here as it does on the other ports.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyromq.clock import Clock
from pyromq.config.settings import NetSettings
from pyromq.net.http2.arriving import ArrivingBytes
from pyromq.net.http2.grpc_calls import GrpcMethods
from pyromq.net.http2.grpc_link import GrpcLink
from pyromq.net.http2.own_certificate import with_certificate
from pyromq.net.http2.session_terms import SessionLimits
from pyromq.net.http2.which_session import session_class, why_plain
from pyromq.net.link import Link
from pyromq.net.routes import RequestTable
from pyromq.net.server import Server
from pyromq.net.turn import Turn

if TYPE_CHECKING:
    from pyromq.net.http2.grpc_session import GrpcSession

_ALPN = ["h2"]
#: So many times the largest message may be there in parts, over all connections.
ARRIVING_FACTOR_MAX = 4

_log = logging.getLogger("pyromq.net")


class GrpcServer(Server):
    """Answers calls on one or more addresses. `methods` may be filled after it is made, before it starts.

    `certificate_folder` is where a certificate of its own is kept, if the settings name none; `make_session`
    makes a connection's session, by default on nghttp2 if that is there, else on h2. Raises
    ConfigError when TLS cannot be set up, or HTTP/2 is not installed.
    """

    def __init__(
        self,
        methods: GrpcMethods,
        settings: NetSettings,
        *,
        clock: Clock,
        name: str,
        certificate_folder: Path,
        turn: Turn | None = None,
        limits: SessionLimits | None = None,
        make_session: Callable[[SessionLimits], GrpcSession] | None = None,
        on_link_closed: Callable[[Link], None] | None = None,
    ) -> None:
        self._make_session = make_session or session_class()
        if make_session is None and (why := why_plain()) is not None:
            _log.warning("%s speaks gRPC by h2, ten times slower than by nghttp2: %s", name, why)
        super().__init__(
            RequestTable(()),
            with_certificate(settings, certificate_folder),
            clock=clock,
            name=name,
            on_link_closed=on_link_closed,
            turn=turn,
        )
        if self._tls is not None:
            # Java's, Go's and C++'s clients leave a server that does not choose it.
            self._tls.set_alpn_protocols(_ALPN)
        self._methods = methods
        self._limits = limits or SessionLimits()
        #: One of each for all links: of ten thousand that are idle each has a place in memory.
        self._on_start, self._on_end = self._admit, self._forget
        self._arriving = ArrivingBytes(ARRIVING_FACTOR_MAX * self._limits.message_bytes_max)

    async def close(self) -> None:
        """Tell clients to go elsewhere, give calls under way a short grace, then end all connections."""
        for link in self.grpc_links():
            link.go_away()
        await super().close()

    def close_idle(self) -> None:
        """End connections that were silent too long and have no calls; those that have are looked after."""
        for link in self.grpc_links():
            link.look_after(self._settings.server_channel_max_idle_time_seconds / 2)
        super().close_idle()

    def grpc_links(self) -> list[GrpcLink]:
        """Return the open connections."""
        return [link for link in self.links if isinstance(link, GrpcLink)]

    def _new_link(self) -> Link:
        return GrpcLink(
            self._settings,
            turn=self._turn,
            clock=self._clock,
            methods=self._methods,
            session=self._make_session(self._limits),
            arriving=self._arriving,
            on_start=self._on_start,
            on_end=self._on_end,
        )
