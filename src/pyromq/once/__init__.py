"""The idempotent consumer: duplicates come, and the work is done once.

`@once(tokens, key=…)` guards a listener by a business key. Tokens are kept in a file of SQLite, in the
application's database, or in Redis.
"""

from pyromq.errors import BeingProcessed, NoBusinessKey
from pyromq.once.db_tokens import DbTokens, SqliteTokens
from pyromq.once.guard import Once, once
from pyromq.once.redis_tokens import RedisTokens
from pyromq.once.tokens import Began, Tokens

__all__ = [
    "Began",
    "BeingProcessed",
    "DbTokens",
    "NoBusinessKey",
    "Once",
    "RedisTokens",
    "SqliteTokens",
    "Tokens",
    "once",
]
