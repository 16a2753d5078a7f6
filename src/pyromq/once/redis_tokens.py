"""Tokens in Redis, or in what speaks its protocol: quick, and as durable as that server is."""

from datetime import timedelta
from typing import Any, Final, Protocol

from pyromq.once.tokens import KEEP, LEASE, Began, in_ms, stored_key

_DONE: Final = "done"
# A lease that ran out leaves no token; then the work is done all the same, unless another has begun.
_FINISH: Final = """
local held = redis.call('GET', KEYS[1])
if not held or held == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 0
"""
_FORGET: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 0
"""


class RedisClient(Protocol):
    """The methods that are used of `redis.Redis` (redis-py), which is not imported here."""

    def set(self, name: str, value: str, *, nx: bool, px: int) -> Any:
        """Set a value with a time to live, unless there is one."""
        ...

    def get(self, name: str) -> Any:
        """Return a value, as bytes or text, or None."""
        ...

    def eval(self, script: str, numkeys: int, *keys_and_args: Any) -> Any:
        """Run a script on the server, where nothing comes in between."""
        ...


class RedisTokens:
    """Tokens in Redis.

        tokens = RedisTokens(redis.Redis(), scope="billing")

    A Redis that loses its memory loses the tokens: where an effect must not happen twice, record it in the
    transaction of the business write as well (`DbTokens`), and let this one spare the database the look.
    """

    def __init__(
        self,
        client: RedisClient,
        prefix: str = "pyromq:once:",
        *,
        scope: str = "",
        lease: timedelta = LEASE,
        keep: timedelta = KEEP,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._scope = scope
        self._lease_ms = in_ms(lease)
        self._keep_ms = in_ms(keep)

    def begin(self, key: str, owner: str) -> Began:
        """Take the token, unless another holds it or the work is done."""
        if self._client.set(self._name(key), f"by:{owner}", nx=True, px=self._lease_ms):
            return Began.MINE
        held = self._client.get(self._name(key))
        return Began.DONE if held in (_DONE, _DONE.encode()) else Began.BUSY

    def finish(self, key: str, owner: str) -> None:
        """Write down that the work is done; if the lease ran out and another took it, that is for them."""
        self._client.eval(_FINISH, 1, self._name(key), f"by:{owner}", _DONE, self._keep_ms)

    def forget(self, key: str, owner: str) -> None:
        """Remove the token if it is still ours, so that the work can be begun again."""
        self._client.eval(_FORGET, 1, self._name(key), f"by:{owner}")

    def _name(self, key: str) -> str:
        return self._prefix + stored_key(self._scope, key)
