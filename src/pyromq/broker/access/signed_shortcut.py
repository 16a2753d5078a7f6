"""Signed requests on the kernel's way: what was let through here, the kernel lets through again.

    AccessControl lets a request through ─► `learn`: account, code, and the fields that say what is needed
    the kernel gets a request like it    ─► its signature is worked out and compared, as for every request

The end of a transaction and a send-back name a message by its position, and need something for its topic. Of
them the message's topics are learnt, and the kernel looks at the message of each such request.

What is learnt follows from one set of rules (`control.Rules`), and nothing of it outlives them: `around`
looks before each call of a shortcut whether they still hold. No connection is trusted for what it sent
before. From a host on the global white list everything is let in, here as there; so such a request says
nothing about the account that it may name.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from pyromq.broker.access.access_wiring import topics_at
from pyromq.broker.access.accounts import Account
from pyromq.broker.access.needs import looked_at
from pyromq.broker.requests.route_facts import BrokerTable
from pyromq.errors import StoreError
from pyromq.net.link import Link
from pyromq.net.turn import Shortcut
from pyromq.store.store import MessageStore
from pyromq.wire.command import Command
from pyromq.wire.signature import signing_key

if TYPE_CHECKING:
    from pyromq._kernel.requests.signatures import Signatures
    from pyromq.wire.signing_key import SigningKey

#: Of one shortcut; what is learnt takes at most 512 bytes (FACT_BYTES_MAX in signatures.pxd).
KNOWN_MAX: Final = 100_000


class FastSignatures:
    """Teaches the kernel which signed requests pass; `rules` returns the rules that hold now."""

    def __init__(self, table: BrokerTable, rules: Callable[[], object], store: MessageStore) -> None:
        self._table = table
        self._store = store
        self._current = rules
        #: The rules that all that is learnt follows from.
        self._rules: object = None
        self._kernels: list[Signatures] = []
        #: By code: the kernel that has its requests, the fields that say what one needs, and the field that
        #: gives the position of a message.
        self._by_code: dict[int, tuple[Signatures, tuple[str, ...], str | None]] = {}
        self._keys: dict[str, SigningKey] = {}

    def of(self, codes: Iterable[int]) -> "Signatures":
        """Return what looks at requests of these codes, where their fields say what they need."""
        # Only now: without a compiler there is nothing to import.
        from pyromq._kernel.requests.signatures import Signatures

        rules = {}
        for code in codes:
            route = self._table.find(code)
            rule = None if route is None else looked_at(route.needs)
            if rule is not None:
                rules[int(code)] = rule
        encoded = {
            code: (tuple(name.encode() for name in names), None if place is None else place.encode())
            for code, (names, place) in rules.items()
        }
        kernel = Signatures(encoded, self._store.log)
        self._kernels.append(kernel)
        self._by_code.update({code: (kernel, *rule) for code, rule in rules.items()})
        return kernel

    def around(self, shortcut: Shortcut) -> Shortcut:
        """Return a shortcut before which it is looked whether the rules changed."""

        def take(links: list[Link]) -> bool:
            rules = self._current()
            if rules is not self._rules:
                self._forget(rules)
            return shortcut(links)

        return take

    def learn(self, rules: object, account: Account | None, link: Link, command: Command) -> None:
        """Let requests pass like one that these rules let through; None: for the host that it came from."""
        if rules is not self._rules:
            self._forget(rules)
        if account is None:
            for kernel in self._kernels:
                self._make_room(kernel)
                kernel.learn_host(link.peer_host_bytes)
            return
        found = self._by_code.get(command.code)
        if found is None:
            return
        kernel, names, place = found
        ext = command.ext or {}
        values = [ext.get(name) for name in names]
        if place is not None:
            values += self._topics_at(ext.get(place, ""))
        texts = tuple(value.encode() for value in values if value is not None and value.isascii())
        if len(texts) == len(values) and account.access_key.isascii():
            self._make_room(kernel)
            key = self._keys.get(account.access_key)
            if key is None:
                key = self._keys[account.access_key] = signing_key(account.secret)
            kernel.learn(account.access_key.encode(), key, command.code, texts)

    def _topics_at(self, position: str) -> tuple[str | None, ...]:
        """Return the topics of the message at a position; None where nothing is learnt of it."""
        try:
            return topics_at(self._store, int(position)) or (None,)
        except (ValueError, StoreError):
            return (None,)

    def _make_room(self, kernel: "Signatures") -> None:
        """Forget all when it is too much: whoever has a default permission may vary names for ever."""
        if kernel.known_count >= KNOWN_MAX:
            kernel.forget_all()

    def _forget(self, rules: object) -> None:
        self._rules = rules
        self._keys.clear()
        for kernel in self._kernels:
            kernel.forget_all()
