"""A client for what failover needs of etcd: keys under a prefix, transactions, leases, and a watch.

It speaks etcd's JSON gateway (v3) over HTTP. Each call has a time limit. A member that does not answer is
left for the next one; a change is sent again only if it cannot have arrived. Reads are linearizable, so a
member that was cut off from the others cannot answer with what was.
"""

import asyncio
import logging
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from pyromq.broker.failover.endpoints import Endpoints
from pyromq.errors import ConfigError, EtcdFailed

if TYPE_CHECKING:
    import httpx

#: Seconds that a member has to answer.
ANSWER_S = 1.0
#: Seconds without an event after which a watch is made anew: its connection may be dead.
_WATCH_SILENT_S = 10.0
#: gRPC's UNAUTHENTICATED: a token is not known any more, for it was given before etcd was restarted.
_UNAUTHENTICATED = 16
#: What gRPC says when nothing was done because nobody could: no leader, or it is being chosen.
_UNAVAILABLE = 14
_NO_LEASE = "lease not found"


@dataclass(frozen=True, slots=True)
class Item:
    """A key's value, when it was last changed, and the lease it lives with (0: none)."""

    value: bytes
    revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """The values under a prefix, by the rest of the key, and etcd's revision then."""

    revision: int
    items: Mapping[str, Item]


@dataclass(slots=True)
class Transaction:
    """Changes that are made together, if every key was last changed at a revision (0: it is not there)."""

    unchanged: dict[str, int] = field(default_factory=dict)
    puts: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    deletes: list[str] = field(default_factory=list)


class LeaseGone(EtcdFailed):
    """The lease that keys were to live with has run out."""


class EtcdClient:
    """One client of an etcd cluster; close it.

    `transport` carries the requests, by default over the machine's sockets.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        *,
        answer_s: float = ANSWER_S,
        transport: "httpx.AsyncBaseTransport | None" = None,
    ) -> None:
        self._endpoints = endpoints
        self._answer_s = answer_s
        self._library = _httpx()
        self._client: httpx.AsyncClient = self._library.AsyncClient(
            timeout=self._library.Timeout(answer_s),
            verify=endpoints.tls or False,
            trust_env=False,
            transport=transport,
        )
        #: Which member is asked; the next one when it does not answer.
        self._at = 0
        self._token: str | None = None

    @property
    def shown(self) -> str:
        """The members' addresses, for a person."""
        return self._endpoints.shown

    async def close(self) -> None:
        """End all connections."""
        await self._client.aclose()

    async def find(self, prefix: str) -> Found:
        """Return all keys that begin with `prefix`, as they were together at one moment."""
        body = {"key": _b64(prefix), "range_end": _b64(_end_of(prefix))}
        answer = await self._call("kv/range", body, is_repeatable=True)
        return Found(
            revision=int(answer["header"]["revision"]),
            items={
                _text(item["key"]).removeprefix(prefix): Item(
                    b64decode(item.get("value", "")),
                    int(item["mod_revision"]),
                    int(item.get("lease", 0)),
                )
                for item in answer.get("kvs", ())
            },
        )

    async def commit(self, transaction: Transaction) -> bool:
        """Make the changes if what they build on is unchanged; return whether they were made.

        Raises LeaseGone when a key was to live with a lease that has run out.
        """
        compare = [
            {"key": _b64(key), "target": "MOD", "mod_revision": str(revision)}
            for key, revision in transaction.unchanged.items()
        ]
        puts = [
            {"request_put": {"key": _b64(key), "value": b64encode(value).decode(), "lease": str(lease)}}
            for key, (value, lease) in transaction.puts.items()
        ]
        deletes = [{"request_delete_range": {"key": _b64(key)}} for key in transaction.deletes]
        try:
            answer = await self._call("kv/txn", {"compare": compare, "success": [*puts, *deletes]})
        except _Refusal as refusal:
            if _NO_LEASE in str(refusal):
                raise LeaseGone(str(refusal)) from refusal
            raise
        return bool(answer.get("succeeded", False))

    async def grant(self, ttl_s: int) -> tuple[int, float]:
        """Ask for a lease; return its id and the seconds that it lives without a word."""
        answer = await self._call("lease/grant", {"TTL": str(ttl_s)}, is_repeatable=True)
        return int(answer["ID"]), float(answer["TTL"])

    async def keep_alive(self, lease: int) -> float:
        """Let a lease live on; return the seconds that it has from now, 0 if there is none any more."""
        answer = await self._call("lease/keepalive", {"ID": str(lease)}, is_repeatable=True)
        return float(answer["result"].get("TTL", 0))

    async def revoke(self, lease: int) -> None:
        """End a lease with all keys that live with it; one that has ended already is no error."""
        try:
            await self._call("lease/revoke", {"ID": str(lease)}, is_repeatable=True)
        except _Refusal as refusal:
            if _NO_LEASE not in str(refusal):
                raise

    async def watch(self, prefix: str, revision: int) -> AsyncIterator[None]:
        """Give a word for each change under `prefix` after a revision, until etcd is silent or gone."""
        body = {
            "create_request": {
                "key": _b64(prefix),
                "range_end": _b64(_end_of(prefix)),
                "start_revision": str(revision + 1),
            }
        }
        timeout = self._library.Timeout(self._answer_s, read=_WATCH_SILENT_S)
        try:
            async with self._client.stream(
                "POST",
                f"{self._url}/v3/watch",
                content=msgspec.json.encode(body),
                headers=self._headers(),
                timeout=timeout,
            ) as answer:
                async for line in answer.aiter_lines():
                    if line and msgspec.json.decode(line).get("result", {}).get("events"):
                        yield None
        except (self._library.HTTPError, OSError, msgspec.DecodeError):
            # The owner looks again soon anyway, and then finds out whether somebody answers.
            return

    @property
    def _url(self) -> str:
        return self._endpoints.urls[self._at % len(self._endpoints.urls)]

    def _headers(self) -> dict[str, str]:
        return {"Authorization": self._token} if self._token is not None else {}

    async def _call(
        self, path: str, body: Mapping[str, object], *, is_repeatable: bool = False
    ) -> dict[str, Any]:
        """Ask the members in turn, the one that answered last first."""
        reasons: list[str] = []
        for _ in self._endpoints.urls:
            url = self._url
            try:
                return await self._ask_as_user(url, path, body)
            except _NoAnswer as failed:
                reasons.append(f"{url.partition('://')[2]}: {failed}")
                self._at += 1
                if failed.may_be_done and not is_repeatable:
                    raise EtcdFailed(f"etcd does not answer: {reasons[-1]}", may_be_done=True) from failed
        raise EtcdFailed(f"etcd does not answer: {'; '.join(reasons)}")

    async def _ask_as_user(self, url: str, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        if self._endpoints.user is None:
            return await self._ask(url, path, body)
        if self._token is None:
            await self._authenticate(url)
        try:
            return await self._ask(url, path, body)
        except _Refusal as refusal:
            if refusal.code != _UNAUTHENTICATED:
                raise
            await self._authenticate(url)
            return await self._ask(url, path, body)

    async def _authenticate(self, url: str) -> None:
        self._token = None
        credentials = {"name": self._endpoints.user, "password": self._endpoints.password}
        self._token = (await self._ask(url, "auth/authenticate", credentials))["token"]

    async def _ask(self, url: str, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        library = self._library
        try:
            # The limit of the library is for each step; this one is for all of them together.
            async with asyncio.timeout(self._answer_s):
                answer = await self._client.post(
                    f"{url}/v3/{path}", content=msgspec.json.encode(body), headers=self._headers()
                )
            decoded: dict[str, Any] = msgspec.json.decode(answer.content)
        except (library.ConnectError, library.ConnectTimeout, library.PoolTimeout) as error:
            raise _NoAnswer(str(error) or "no connection in time", may_be_done=False) from error
        except TimeoutError as error:
            raise _NoAnswer(f"no answer within {self._answer_s:g} s", may_be_done=True) from error
        except (library.HTTPError, OSError, msgspec.DecodeError) as error:
            # A certificate that etcd refuses comes as an error of the system's, not of the library's.
            raise _NoAnswer(str(error) or type(error).__name__, may_be_done=True) from error
        if "error" not in decoded:
            return decoded
        text, code = _complaint(decoded)
        if code == _UNAVAILABLE:
            raise _NoAnswer(text, may_be_done=True)
        raise _Refusal(f"etcd refused {path}: {text}", code)


class _NoAnswer(Exception):
    """One member did not answer; `may_be_done` says that it may have done it all the same."""

    def __init__(self, text: str, *, may_be_done: bool) -> None:
        super().__init__(text)
        self.may_be_done = may_be_done


class _Refusal(EtcdFailed):
    """etcd answered no, with gRPC's code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def _complaint(answer: Mapping[str, Any]) -> tuple[str, int]:
    # Streams put what went wrong into an object of its own.
    error = answer["error"]
    if isinstance(error, dict):
        return str(error.get("message", error)), int(error.get("grpc_code", 0))
    return str(error), int(answer.get("code", 0))


def _httpx() -> ModuleType:
    try:
        import httpx
    except ImportError as error:
        raise ConfigError(
            "failover needs a package to speak to etcd: pip install 'pyromq[failover]'"
        ) from error
    # It logs every request as news.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return httpx


def _b64(text: str) -> str:
    return b64encode(text.encode("utf-8", "surrogateescape")).decode()


def _text(encoded: str) -> str:
    return b64decode(encoded).decode("utf-8", "surrogateescape")


def _end_of(prefix: str) -> str:
    """Return the first key behind all that begin with a prefix, which ends in an ASCII character."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
