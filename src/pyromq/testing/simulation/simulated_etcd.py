"""A simulated etcd: keys with revisions, transactions, leases, watches, in etcd's JSON over HTTP.

One member stands for the cluster: what a client sees of a cluster that keeps its promises is linearizable.
Every change is on its disk before it is answered, so nothing is lost with the process. As with etcd, a lease
lives a whole time to live again after a restart, and runs out a moment late, never early.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from pyromq.testing.simulation.simulated_loop import SimulatedLoop

#: Seconds after which etcd finds, at the latest, that a lease has run out.
_EXPIRY_S: Final = 0.5
_NO_LEASE: Final = {"error": "etcdserver: requested lease not found", "code": 5}

Answer = dict[str, Any]


@dataclass(slots=True)
class _Key:
    value: str
    revision: int
    lease: int


@dataclass(slots=True)
class _Lease:
    ttl_s: int
    ends_at: float
    keys: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class EtcdWatch:
    """One watch: a range of keys, and who is told."""

    first: str
    end: str
    tell: Callable[[int], None]


class EtcdState:
    """The state of the simulated etcd."""

    def __init__(self, loop: SimulatedLoop, chance: Random) -> None:
        self._loop = loop
        self._chance = chance
        self._keys: dict[str, _Key] = {}
        self._leases: dict[int, _Lease] = {}
        self._revision = 1
        self._changes: list[tuple[int, str]] = []
        self.watches: list[EtcdWatch] = []
        #: Told of every key that changed, and its value, None when it is gone.
        self.on_change: Callable[[str, bytes | None], None] | None = None

    def restarted(self) -> None:
        """Begin again on the same data: leases live anew, watches are gone."""
        self.watches.clear()
        for lease in self._leases.values():
            lease.ends_at = self._loop.time() + lease.ttl_s

    def expire(self) -> None:
        """Let go of leases that have run out."""
        now = self._loop.time()
        for number, lease in tuple(self._leases.items()):
            if lease.ends_at + self._chance.uniform(0, _EXPIRY_S) <= now:
                self._drop_lease(number)

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        """Answer a request other than a watch."""
        handle = {
            "kv/range": self._range,
            "kv/txn": self._transact,
            "lease/grant": self._grant,
            "lease/keepalive": self._keep_alive,
            "lease/revoke": self._revoke,
        }[path]
        return handle(body)

    def watch(self, body: dict[str, Any], tell: Callable[[int], None]) -> EtcdWatch:
        """Begin to watch, with what changed since the revision that is asked for."""
        wanted = body["create_request"]
        watch = EtcdWatch(wanted["key"], wanted["range_end"], tell)
        self.watches.append(watch)
        since = int(wanted["start_revision"])
        for revision, key in self._changes:
            if revision >= since and _is_in(key, watch.first, watch.end):
                tell(revision)
        return watch

    def _header(self) -> Answer:
        return {"revision": str(self._revision)}

    def _range(self, body: Answer) -> Answer:
        found = [
            {"key": key, "value": item.value, "mod_revision": str(item.revision), "lease": str(item.lease)}
            for key, item in sorted(self._keys.items(), key=lambda pair: b64decode(pair[0]))
            if _is_in(key, body["key"], body.get("range_end", ""))
        ]
        return {"header": self._header(), "kvs": found, "count": str(len(found))}

    def _transact(self, body: Answer) -> Answer:
        for compare in body.get("compare", ()):
            key = self._keys.get(compare["key"])
            if (key.revision if key is not None else 0) != int(compare["mod_revision"]):
                return {"header": self._header(), "succeeded": False}
        steps = body.get("success", ())
        leases = [int(step["request_put"]["lease"]) for step in steps if "request_put" in step]
        if any(lease and lease not in self._leases for lease in leases):
            return _NO_LEASE
        self._revision += 1
        for step in steps:
            if "request_put" in step:
                put = step["request_put"]
                self._put(put["key"], put["value"], int(put["lease"]))
            else:
                self._delete(step["request_delete_range"]["key"])
        return {"header": self._header(), "succeeded": True}

    def _put(self, key: str, value: str, lease: int) -> None:
        last = self._keys.get(key)
        if last is not None and last.lease in self._leases:
            self._leases[last.lease].keys.pop(key, None)
        self._keys[key] = _Key(value, self._revision, lease)
        if lease:
            self._leases[lease].keys[key] = None
        self._changed(key, value)

    def _delete(self, key: str) -> None:
        last = self._keys.pop(key, None)
        if last is not None:
            if last.lease in self._leases:
                self._leases[last.lease].keys.pop(key, None)
            self._changed(key, None)

    def _changed(self, key: str, value: str | None) -> None:
        self._changes.append((self._revision, key))
        if self.on_change is not None:
            self.on_change(b64decode(key).decode(), b64decode(value) if value is not None else None)
        for watch in self.watches:
            if _is_in(key, watch.first, watch.end):
                watch.tell(self._revision)

    def _grant(self, body: Answer) -> Answer:
        number, ttl_s = self._chance.getrandbits(62) | 1, int(body["TTL"])
        self._leases[number] = _Lease(ttl_s, self._loop.time() + ttl_s)
        return {"header": self._header(), "ID": str(number), "TTL": str(ttl_s)}

    def _keep_alive(self, body: Answer) -> Answer:
        lease = self._leases.get(int(body["ID"]))
        if lease is None:
            return {"result": {"header": self._header(), "ID": body["ID"]}}
        lease.ends_at = self._loop.time() + lease.ttl_s
        return {"result": {"header": self._header(), "ID": body["ID"], "TTL": str(lease.ttl_s)}}

    def _revoke(self, body: Answer) -> Answer:
        number = int(body["ID"])
        if number not in self._leases:
            return _NO_LEASE
        self._drop_lease(number)
        return {"header": self._header()}

    def _drop_lease(self, number: int) -> None:
        lease = self._leases.pop(number)
        if lease.keys:
            self._revision += 1
            for key in tuple(lease.keys):
                self._delete(key)


def _is_in(key: str, first: str, end: str) -> bool:
    if not end:
        return key == first
    return b64decode(first) <= b64decode(key) < b64decode(end)


def encoded(key: str) -> str:
    """Return a key as etcd's JSON has it."""
    return b64encode(key.encode()).decode()
