"""The dashboard's table of contents: every path, and what answers it."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from pyromq.client.aio.asking import Asker
from pyromq.dashboard import (
    access_changes,
    browsing,
    changes,
    letters,
    member_pages,
    message_pages,
    page_views,
    pages,
    resets,
    traces,
    trial_sends,
)
from pyromq.dashboard import account_pages as accounts
from pyromq.dashboard.failure_advice import next_step
from pyromq.dashboard.gate import LOOKS_ONLY, Gate, set_cookie
from pyromq.dashboard.health import Examiner, health
from pyromq.dashboard.sampler import Sampler
from pyromq.dashboard.security import Password, Sessions, Visit
from pyromq.errors import ConfigError, MessageIllegal, NotThere, PyroError, TopicNotFound
from pyromq.net.process_health import LIVE_PATHS, READY_PATHS, HealthCheck, live_report, ready_report

log = logging.getLogger(__name__)

STATIC: Final = Path(__file__).parent / "static"
#: Bytes of an order: a body of four MiB, escaped.
ORDER_BYTES_MAX: Final = 16 * 1024 * 1024
_LOGIN_BYTES_MAX: Final = 16 * 1024
#: What the log does not tell of an order.
_NOT_LOGGED: Final = frozenset({"bodies", "body", "properties", "secret"})
#: Pages that are kept up to date at once.
STREAMS_MAX: Final = 200
#: Seconds after which a stream says that it is still there, though nothing changed.
_ALIVE_S: Final = 15.0

VIEWS: Final[Mapping[str, Callable[..., dict[str, Any]]]] = {
    "overview": page_views.overview,
    "topics": page_views.topics,
    "topic": page_views.topic,
    "groups": page_views.groups,
    "group": page_views.group,
    "clients": page_views.clients,
    "dead-letters": page_views.dead_letters,
    "health": health,
}
#: Views that say what the doctor found.
_OF_HEALTH: Final = frozenset({"overview", "health"})

Answer = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Access to a dashboard: a password or none, the names of this server, and whether it is read-only."""

    password: str | None = field(default=None, repr=False)
    host_names: frozenset[str] = frozenset({"localhost"})
    is_read_only: bool = False


class Dashboard:
    """The pages of one cluster and what they ask for."""

    def __init__(self, asker: Asker, sampler: Sampler, examiner: Examiner, access: Access) -> None:
        self._asker = asker
        self._sampler = sampler
        self._examiner = examiner
        self._access = access
        self._password = None if access.password is None else Password(access.password)
        self._sessions = Sessions()
        self._stopping = asyncio.Event()
        self._stream_count = 0

    def app(self) -> Starlette:
        """Return the whole as an ASGI application."""
        gate = Middleware(
            Gate,
            sessions=self._sessions,
            password=self._password,
            hosts=self._access.host_names,
            is_read_only=self._access.is_read_only,
        )
        return Starlette(
            routes=self._routes(), middleware=[gate, Middleware(GZipMiddleware, minimum_size=1_000)]
        )

    def checks(self) -> list[HealthCheck]:
        """Find out how the dashboard is; how the cluster is, its pages show."""
        why = "it stops" if self._stopping.is_set() else None
        return [HealthCheck("serving", why), *self._sampler.checks()]

    def stop_streams(self) -> None:
        """End the streams, which would never end by themselves."""
        self._stopping.set()

    def _routes(self) -> list[Route | Mount]:
        def get(path: str, answer: Answer) -> Route:
            return Route(path, answering(answer), methods=["GET"])

        def post(path: str, change: Callable[[Mapping[str, Any]], Awaitable[Any]]) -> Route:
            return Route(path, answering(self._ordered(change)), methods=["POST"])

        asker, picture = self._asker, self._sampler.picture
        return [
            *(Route(page.path, self._page(page), methods=["GET"]) for page in pages.PAGES),
            Route("/login", self._login, methods=["GET", "POST"]),
            *(Route(path, self._reporting(live_report), methods=["GET"]) for path in LIVE_PATHS),
            *(Route(path, self._reporting(ready_report), methods=["GET"]) for path in READY_PATHS),
            Mount("/static", StaticFiles(directory=STATIC)),
            # What lists and charts show
            *(get(f"/api/{name}", self._view(name)) for name in VIEWS),
            get("/api/live/{view}", self._live),
            # What is asked for when it is wanted
            get("/api/messages", self._search),
            get("/api/message", self._message),
            get("/api/body", self._body),
            get("/api/letters", self._letters),
            get("/api/members", self._members),
            get("/api/access", self._accounts),
            post("/api/health/examine", self._begin_examination),
            # Changes
            post("/api/topics/put", lambda order: changes.put_topic(asker, picture, order)),
            post("/api/messages/send", lambda order: trial_sends.send(asker, picture, order)),
            post("/api/topics/delete", lambda order: changes.delete_topic(asker, picture, order)),
            post("/api/groups/put", lambda order: changes.put_group(asker, picture, order)),
            post("/api/groups/delete", lambda order: changes.delete_group(asker, picture, order)),
            post("/api/offsets/preview", lambda order: resets.preview(asker, resets.read_order(order))),
            post("/api/offsets/move", lambda order: resets.move(asker, resets.read_order(order))),
            post("/api/letters/replay", lambda order: letters.replay_all(asker, picture, order)),
            post("/api/access/put", lambda order: access_changes.put_account(asker, picture, order)),
            post("/api/access/delete", lambda order: access_changes.delete_account(asker, picture, order)),
            post("/api/access/white", lambda order: access_changes.put_white_list(asker, picture, order)),
            Route("/api/logout", self._logout, methods=["POST"]),
        ]

    # Pages

    def _page(self, page: pages.Page) -> Answer:
        async def answer(request: Request) -> Response:
            visit: Visit = request.state.visit
            return HTMLResponse(
                pages.shell(
                    page,
                    csrf=visit.csrf,
                    name_server=self._asker.name_server,
                    is_read_only=self._access.is_read_only,
                    has_login=self._password is not None,
                )
            )

        return answer

    async def _login(self, request: Request) -> Response:
        if self._password is None:
            return RedirectResponse("/", 303)
        if request.method != "POST":
            return HTMLResponse(
                pages.login(failure=None, next_path=_own_path(request.query_params.get("next")))
            )
        form = parse_qs((await _body_of(request, _LOGIN_BYTES_MAX)).decode("utf-8", "replace"))
        next_path = _own_path(form.get("next", [""])[0])
        client = _client_of(request)
        if not self._sessions.begin_try():
            failure = "Too many wrong passwords: wait a minute, then try again."
            return HTMLResponse(pages.login(failure=failure, next_path=next_path), 429)
        given = form.get("password", [""])[0]
        if not await asyncio.to_thread(self._password.is_it, given):
            log.warning("%s: a wrong password", client)
            failure = "That is not the password."
            return HTMLResponse(pages.login(failure=failure, next_path=next_path), 403)
        self._sessions.forgive()
        log.info("%s: logged in", client)
        answer = RedirectResponse(next_path, 303)
        answer.headers.append("Set-Cookie", set_cookie(request, self._sessions.begin()))
        return answer

    async def _logout(self, request: Request) -> Response:
        self._sessions.end(request.state.visit)
        answer = JSONResponse({})
        answer.headers.append("Set-Cookie", set_cookie(request, None))
        return answer

    def _reporting(self, report: Callable[[Iterable[HealthCheck]], tuple[bool, bytes]]) -> Answer:
        async def answer(_request: Request) -> Response:
            # Who gets an answer knows that the loop answers.
            is_well, text = report([HealthCheck("loop", needs_restart=True), *self.checks()])
            return Response(text, 200 if is_well else 503, media_type="application/json")

        return answer

    # Views

    def _view(self, name: str) -> Answer:
        async def answer(request: Request) -> Response:
            return JSONResponse(self._shown(name, request.query_params))

        return answer

    def _shown(self, name: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a view, and have what it shows looked at first."""
        self._want(name, query)
        shown = VIEWS[name](self._sampler.picture, query)
        shown["outage"] = self._sampler.picture.troubles.get("cluster")
        rows = [str(row.get("name") or row.get("group")) for row in shown.get("rows", ())]
        if name == "topics":
            self._sampler.want(topics=rows)
        elif name == "groups":
            self._sampler.want(groups=rows)
        return shown

    def _want(self, name: str, query: Mapping[str, str]) -> None:
        topics, groups = [], []
        if name in _OF_HEALTH:
            self._examiner.want()
        if name == "topic":
            topics.append(query.get("name", ""))
        elif name == "group":
            groups.append(query.get("name", ""))
            group = self._sampler.picture.groups.get(query.get("name", ""))
            topics += list(group.offsets) if group is not None else []
        self._sampler.want(topics=topics, groups=groups)

    async def _live(self, request: Request) -> Response:
        name = request.path_params["view"]
        if name not in VIEWS:
            raise ConfigError(f"there is no view {name!r}")
        if self._stream_count >= STREAMS_MAX:
            raise ConfigError(f"{STREAMS_MAX} pages are kept up to date already; close some")
        stream = self._stream(name, dict(request.query_params), request.state.visit)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _stream(self, name: str, query: Mapping[str, str], visit: Visit) -> AsyncIterator[str]:
        self._stream_count += 1
        try:
            before = ""
            yield "retry: 2000\n\n"
            # It ends with the visit: who has logged out sees no more.
            while not self._stopping.is_set() and self._sessions.find(visit.token) is not None:
                count = self._sampler.picture.round_count
                try:
                    now = json.dumps(self._shown(name, query), separators=(",", ":"))
                    event = "view"
                except PyroError as error:
                    now, event = json.dumps(_told(error)), "trouble"
                if now != before:
                    before = now
                    yield f"event: {event}\ndata: {now}\n\n"
                await self._next_round(count + 1)
                yield ": still here\n\n"
        finally:
            self._stream_count -= 1

    async def _next_round(self, count: int) -> None:
        waits = {
            asyncio.create_task(self._sampler.wait_for_round(count, _ALIVE_S)),
            asyncio.create_task(self._stopping.wait()),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    # Questions

    async def _search(self, request: Request) -> Response:
        return JSONResponse(await browsing.search(self._asker, self._sampler.picture, request.query_params))

    async def _message(self, request: Request) -> Response:
        message = await message_pages.by_id(self._asker, self._sampler.picture, request.query_params)
        shown = message_pages.full(message)
        shown["trace"] = await traces.trace_of(self._asker, self._sampler.picture, message)
        return JSONResponse(shown)

    async def _body(self, request: Request) -> Response:
        message = await message_pages.by_id(self._asker, self._sampler.picture, request.query_params)
        headers = {"Content-Disposition": f'attachment; filename="{message.offset_message_id}.bin"'}
        return Response(message.body, media_type="application/octet-stream", headers=headers)

    async def _letters(self, request: Request) -> Response:
        return JSONResponse(await letters.listed(self._asker, request.query_params))

    async def _members(self, request: Request) -> Response:
        return JSONResponse(await member_pages.running(self._asker, request.query_params))

    async def _accounts(self, _request: Request) -> Response:
        return JSONResponse(await accounts.accounts(self._asker, self._sampler.picture))

    async def _begin_examination(self, _order: Mapping[str, Any]) -> dict[str, Any]:
        self._examiner.begin()
        return {}

    # Changes

    def _ordered(self, change: Callable[[Mapping[str, Any]], Awaitable[Any]]) -> Answer:
        async def answer(request: Request) -> Response:
            try:
                order = json.loads(await _body_of(request, ORDER_BYTES_MAX))
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"the order does not read: {error}") from error
            if not isinstance(order, dict):
                raise ConfigError("an order is a JSON object")
            result = await change(order)
            if request.url.path not in LOOKS_ONLY:
                log.info("%s: %s %s", _client_of(request), request.url.path, _brief(order))
                await self._sampler.look_again()
            return JSONResponse(result)

        return answer


def answering(answer: Answer) -> Answer:
    """Wrap an answer so that our errors become JSON with the cause and the next step."""

    async def guarded(request: Request) -> Response:
        try:
            return await answer(request)
        except PyroError as error:
            return JSONResponse(_told(error), _status(error))

    return guarded


def _told(error: PyroError) -> dict[str, str]:
    return {"error": str(error), "next": next_step(error)}


def _status(error: PyroError) -> int:
    if isinstance(error, ConfigError | MessageIllegal):
        return 400
    return 404 if isinstance(error, NotThere | TopicNotFound) else 502


async def _body_of(request: Request, bytes_max: int) -> bytes:
    parts = bytearray()
    async for part in request.stream():
        parts += part
        if len(parts) > bytes_max:
            raise ConfigError(f"an order may have {bytes_max:,} bytes; send less at once")
    return bytes(parts)


def _client_of(request: Request) -> str:
    return request.client.host if request.client is not None else "?"


def _own_path(text: str | None) -> str:
    """Return a path of this server, whatever a link says where to go after the login."""
    if not text or not text.startswith("/") or text.startswith(("//", "/\\")) or "\n" in text or "\r" in text:
        return "/"
    return text


def _brief(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return an order without the bodies of messages and without secrets, for the log."""
    return {name: value for name, value in order.items() if name not in _NOT_LOGGED}
