"""An account, and whether it may do what a request needs. RocketMQ 4.9.8: Permission, PlainPermissionManager.

What a group may is kept under the name of its retry topic, as RocketMQ does: topics and groups share one map.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyromq import system_names
from pyromq.broker.topics import topic_names
from pyromq.config.account_rules import PERMISSION_WORDS, Permission
from pyromq.config.address_patterns import Addresses
from pyromq.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The permissions that a request needs: topics and retry topics, and perhaps an administrator."""

    resources: Mapping[str, Permission] = field(default_factory=dict)
    is_admin: bool = False


class AccessDenied(Exception):
    """A request may not pass; the text is for whoever sent it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One account of a file."""

    access_key: str
    secret: bytes = field(repr=False)
    white: Addresses = field(default_factory=Addresses, repr=False)
    is_admin: bool = False
    default_topic: Permission = Permission.DENY
    default_group: Permission = Permission.DENY
    resources: Mapping[str, Permission] = field(default_factory=dict)

    @property
    def may_everything(self) -> bool:
        """Whether it is an administrator without lines of its own; with lines it is held to them."""
        return self.is_admin and not self.resources

    def check(self, code: int, need: Need) -> None:
        """Raise AccessDenied unless the account may do what a request of this code needs."""
        if need.resources.get(system_names.TRACE) == Permission.PUB:
            # Whoever may send at all may say what became of a message.
            return
        if need.is_admin and not self.is_admin:
            raise AccessDenied(
                f"Need admin permission for request code={code}, but accessKey={self.access_key} is not"
            )
        if self.may_everything:
            return
        for name, needed in need.resources.items():
            if not self._may(name, needed):
                raise AccessDenied(f"No default permission for {_shown(name)}")

    def _may(self, name: str, needed: Permission) -> bool:
        owned = self.resources.get(name)
        if owned is None:
            owned = self._default(name)
        if owned & Permission.DENY:
            return False
        if needed & Permission.ANY:
            return bool(owned & (Permission.PUB | Permission.SUB))
        return bool(owned & needed)

    def _default(self, name: str) -> Permission:
        if name.startswith(topic_names.RETRY_PREFIX):
            return self.default_group
        # Messages of all topics wait there: a default says nothing of them, only a line of their own does.
        return Permission.DENY if topic_names.is_brokers_own(name) else self.default_topic


def read_permission(word: str) -> Permission:
    """Return the permission of a word; what is no such word allows nothing, as in RocketMQ."""
    return PERMISSION_WORDS.get(word.strip(), Permission.DENY)


def read_resources(lines: Iterable[str], *, is_topic: bool) -> dict[str, Permission]:
    """Read lines of `name=permission`. Raises ConfigError for one that is none."""
    resources: dict[str, Permission] = {}
    for line in lines:
        items = [item for item in line.split("=") if item]
        if len(items) != 2:
            kind = "topic" if is_topic else "group"
            raise ConfigError(f"Parse resource permission failed for {kind}:{line}; write name=PUB|SUB")
        name, word = items[0].strip(), items[1]
        resources[name if is_topic else topic_names.retry_topic(name)] = read_permission(word)
    return resources


def _shown(name: str) -> str:
    if name.startswith(topic_names.RETRY_PREFIX):
        return f"group:{name.removeprefix(topic_names.RETRY_PREFIX)}"
    return f"topic:{name}"
