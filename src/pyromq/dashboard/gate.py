"""The door of the dashboard: every request passes it, and every answer gets its headers there."""

from typing import Final
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyromq.dashboard.security import (
    CSRF_HEADER,
    HEADERS,
    SESSION_S,
    Password,
    Sessions,
    Visit,
    cookie_name,
    is_allowed_host,
    is_over_tls,
    is_own,
)
from pyromq.net.process_health import LIVE_PATHS, READY_PATHS

#: Paths that need no visit.
_OPEN: Final = ("/static/", "/login", *LIVE_PATHS, *READY_PATHS)
#: Orders that change nothing; a dashboard that only looks takes them too.
LOOKS_ONLY: Final = frozenset({"/api/offsets/preview", "/api/health/examine"})
_READING: Final = frozenset({"GET", "HEAD"})


class Gate:
    """Lets requests through that may be: from a known host, with a visit, changes only from our own page."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        sessions: Sessions,
        password: Password | None,
        hosts: frozenset[str],
        is_read_only: bool,
    ) -> None:
        self._app = app
        self._sessions = sessions
        self._password = password
        self._hosts = hosts
        self._is_read_only = is_read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        cookie: str | None = None

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers["Cache-Control"] = "no-cache" if scope["path"].startswith("/static/") else "no-store"
                if cookie is not None:
                    headers.append("Set-Cookie", cookie)
            await send(message)

        visit = self._sessions.find(request.cookies.get(cookie_of(request)))
        refusal = self._refusal(request, visit)
        if refusal is None and visit is None and not scope["path"].startswith(_OPEN):
            # Without a password whoever reaches this address may look; the visit is for the token.
            visit = self._sessions.begin()
            cookie = set_cookie(request, visit)
        scope["state"] = {**scope.get("state", {}), "visit": visit}
        answer = self._app if refusal is None else refusal
        await answer(scope, receive, with_headers)

    def _refusal(self, request: Request, visit: Visit | None) -> Response | None:
        path = request.url.path
        host = request.headers.get("host", "")
        if not is_allowed_host(host, self._hosts):
            return _refused(
                400,
                f"this server is not called {host!r}",
                "Use its address, or start it with --host-name NAME.",
            )
        if path.startswith(_OPEN):
            return None
        if visit is None and self._password is not None:
            if path.startswith("/api/"):
                return _refused(401, "you are not logged in, or no longer", "Log in again.")
            target = path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"/login?next={quote(target, safe='')}", 303)
        if request.method in _READING:
            return None
        return self._refusal_of_change(request, visit)

    def _refusal_of_change(self, request: Request, visit: Visit | None) -> Response | None:
        if visit is None or not is_own(visit, request.headers.get(CSRF_HEADER)):
            return _refused(403, "the change did not come from this page", "Load the page again.")
        if self._is_read_only and request.url.path not in (*LOOKS_ONLY, "/api/logout"):
            return _refused(
                403, "this dashboard only looks (--read-only)", "Start one without it to change something."
            )
        return None


def cookie_of(request: Request) -> str:
    """Return the name of the cookie that a request's browser has for this dashboard."""
    return cookie_name(request.headers.get("host", ""))


def set_cookie(request: Request, visit: Visit | None) -> str:
    """Return the header that gives a browser its visit, or takes it away."""
    is_secure = is_over_tls(request.url.scheme, request.headers.get("x-forwarded-proto"))
    value, age = (visit.token, int(SESSION_S)) if visit is not None else ("", 0)
    secure = "; Secure" if is_secure else ""
    return f"{cookie_of(request)}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"


def _refused(status: int, error: str, next_step: str) -> Response:
    return JSONResponse({"error": error, "next": next_step}, status)
