"""Access to the pages: a password, sessions, tokens against forged requests, safe headers.

A session is a random token in a cookie that scripts do not see and that other sites' requests do not carry
(HttpOnly, SameSite=Strict). Every change carries a second token too, which only our own page knows.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from pyromq.clock import Clock, SystemClock

_COOKIE: Final = "pyromq_dashboard"
CSRF_HEADER: Final = "x-csrf-token"
#: Seconds after which one must log in again.
SESSION_S: Final = 12 * 3_600.0
SESSIONS_MAX: Final = 1_000
#: Wrong passwords that are taken in a minute, from all addresses together.
FAILURES_MAX: Final = 10
_FAILURES_S: Final = 60.0
#: scrypt's cost: 16 MiB and some 50 ms.
_COST: Final = {"n": 2**14, "r": 8, "p": 1}

#: What every answer carries. Scripts and styles come from here alone, and none is inline.
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        # Nor does a script make markup of text.
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Password:
    """A password that is kept as its hash only."""

    def __init__(self, text: str) -> None:
        self._salt = secrets.token_bytes(16)
        self._hash = self._digest(text)

    def is_it(self, text: str) -> bool:
        """Return whether a text is the password; takes as long either way."""
        return hmac.compare_digest(self._digest(text), self._hash)

    def _digest(self, text: str) -> bytes:
        return hashlib.scrypt(text.encode(), salt=self._salt, **_COST)


@dataclass(slots=True)
class Visit:
    """A browser that may look: its two tokens, and until when."""

    token: str
    csrf: str
    until: float


@dataclass(slots=True)
class Sessions:
    """The visits that there are; the oldest go when they are too many."""

    clock: Clock = field(default_factory=SystemClock)
    _visits: OrderedDict[str, Visit] = field(default_factory=OrderedDict)
    _failures: deque[float] = field(default_factory=deque)

    def begin(self) -> Visit:
        """Return a new visit."""
        visit = Visit(
            secrets.token_urlsafe(32), secrets.token_urlsafe(32), self.clock.monotonic() + SESSION_S
        )
        self._visits[visit.token] = visit
        while len(self._visits) > SESSIONS_MAX:
            self._visits.popitem(last=False)
        return visit

    def find(self, token: str | None) -> Visit | None:
        """Return the visit of a cookie, if it is not over."""
        visit = self._visits.get(token or "")
        if visit is None or visit.until < self.clock.monotonic():
            return None
        # Who is there stays: those without a cookie, each of whose requests is a visit, push out the others.
        self._visits.move_to_end(visit.token)
        return visit

    def end(self, visit: Visit) -> None:
        """Forget a visit."""
        self._visits.pop(visit.token, None)

    def begin_try(self) -> bool:
        """Count a password as wrong until it is known, so that many at once get no further than one by one.

        Return False when too many came in the last minute: this one is not to be looked at.
        """
        now = self.clock.monotonic()
        while self._failures and self._failures[0] < now - _FAILURES_S:
            self._failures.popleft()
        if len(self._failures) >= FAILURES_MAX:
            return False
        self._failures.append(now)
        return True

    def forgive(self) -> None:
        """Take one back that was right."""
        if self._failures:
            self._failures.pop()


def is_own(visit: Visit, token: str | None) -> bool:
    """Return whether a change comes from our own page."""
    return hmac.compare_digest(visit.csrf.encode(), (token or "").encode())


def cookie_name(host: str) -> str:
    """Return the cookie's name for a Host header: browsers send cookies of one port to all others."""
    port = host.rpartition(":")[2] if not host.endswith("]") and ":" in host else ""
    return f"{_COOKIE}_{port}" if port.isdecimal() else _COOKIE


def is_over_tls(scheme: str, forwarded: str | None) -> bool:
    """Return whether a browser came here by TLS, straight or to a proxy that says so.

    Whoever lies about it gets a cookie that is not sent back without TLS, and harms nobody else.
    """
    return scheme == "https" or (forwarded or "").partition(",")[0].strip().casefold() == "https"


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_allowed_host(header: str, allowed: frozenset[str]) -> bool:
    """Return whether a Host header names this server: another name may be a trap (DNS rebinding).

    Addresses are always right: a page of another site cannot have one as its name and lead here.
    """
    host = header.rsplit(":", 1)[0] if not header.endswith("]") and ":" in header else header
    if host.casefold() in allowed or "*" in allowed:
        return True
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
