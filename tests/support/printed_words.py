"""Whether a text of the documentation has the program's own words: what commands print is compared with it.

Two words in a row that the source has nowhere in a text of its own are words that no command prints. Names
of topics and groups, numbers, addresses and times are the example's own, and end a row of words; so do signs.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from printed_commands import SOURCE

#: Names and values of the examples, and words of the listeners and accounts in them.
_EXAMPLES = frozenset(
    {
        *(
            "orders",
            "billing",
            "bills",
            "audit",
            "reports",
            "prices",
            "ticks",
            "mail",
            "carts",
            "deals",
            "events",
        ),
        *("paid", "sent", "tag", "kind", "knd", "startingofsets", "city", "oslo", "shop", "defaultcluster"),
        *("handle", "insert", "self", "database", "commit", "app", "threading", "event", "wait", "listener"),
        *("one", "two", "three", "four", "five", "again", "mnt", "disk", "pipeline", "yml", "broker"),
        *("kib", "mib", "gib", "ms", "s", "a", "b", "c", "d", "e", "f", "g"),
    }
)
#: What is printed with a word that the source chooses: «would be» or «are», «wipe» or «add».
_CHOSEN = frozenset(
    {
        *(("written", "on", "any"), ("and", "refuses", "the"), ("see", "above", "where")),
        *(("above", "where", "it"), ("the", "tags", "with")),
        *(("read", "are", "deleted"), ("queues", "would", "move"), ("would", "be", "skipped")),
        ("wipe", "write", "perm"),
    }
)
#: Packages that say nothing to people.
_SILENT = frozenset(
    {"wire", "net", "_kernel", "kernel", "config", "filter", "testing", "dashboard", "sql", "bench"}
)
_WORD = re.compile(r"[A-Za-z][A-Za-z']*")
_SIGNS = "().,:;?!…→«»`'\"#✗·✓=-[]"
_HOLE = "\x01"


def unknown_words(text: str) -> list[str]:
    """Return the words, and pairs of words, that the source does not have."""
    pairs, words = _source()
    unknown = []
    # A text that a terminal wrapped is one text.
    for row in _rows(re.sub(r"\n +(?!\s*File )", " ", text)):
        unknown += [word for word in row if word not in words]
        if len(row) == 2 and tuple(row) not in pairs:
            unknown.append(" ".join(row))
        unknown += [
            " ".join(trio) for trio in zip(row, row[1:], row[2:], strict=False) if not pairs.has(trio)
        ]
    return unknown


def _rows(text: str) -> list[list[str]]:
    """Return the rows of words between names, numbers and ends of lines."""
    rows: list[list[str]] = [[]]
    for part in re.split(r"(\s+)", text):
        if not part.strip():
            if part != " ":
                rows.append([])
            continue
        bare = part.strip(_SIGNS)
        if part[0] in _SIGNS or bare in ("why", "do", "pyromq"):
            rows.append([])
        if not _WORD.fullmatch(bare) or bare.lower() in _EXAMPLES:
            rows.append([])
        else:
            rows[-1].append(bare.lower())
            if part[-1] in _SIGNS:
                rows.append([])
    return [row for row in rows if row]


@cache
def _source() -> tuple["_Pairs", frozenset[str]]:
    """Return the pairs of words that the source has, and its words."""
    pairs, words = _Pairs(), set()
    for path in sorted(SOURCE.rglob("*.py")):
        if not _SILENT.isdisjoint(path.relative_to(SOURCE).parts):
            continue
        for text in _texts(ast.parse(path.read_text())):
            for row in _rows(text):
                words.update(row)
                pairs.inside.update(pairwise(row))
                pairs.trios.update(zip(row, row[1:], row[2:], strict=False))
            for piece in text.split(_HOLE) if " " in text.strip() else ():
                if inside := _rows(piece):
                    pairs.first.add(inside[0][0])
                    pairs.last.add(inside[-1][-1])
                    pairs.opening.add(tuple(inside[0][:2]))
                    pairs.closing.add(tuple(inside[-1][-2:]))
    return pairs, frozenset(words)


class _Pairs:
    """Two and three words in a row: within a text, or the last of one text and the first of the next."""

    def __init__(self) -> None:
        self.inside: set[tuple[str, str]] = set()
        self.first: set[str] = set()
        self.last: set[str] = set()
        self.trios: set[tuple[str, str, str]] = set()
        #: The first two words of texts, and the last two; the only one of a text that has one.
        self.opening: set[tuple[str, ...]] = set()
        self.closing: set[tuple[str, ...]] = set()

    def has(self, trio: tuple[str, str, str]) -> bool:
        """Whether three words stand in a text, or where one text ends and the next begins."""
        one, two, three = trio
        return (
            trio in self.trios
            or trio in _CHOSEN
            or ((one, two) in self.closing and three in self.first)
            or (one in self.last and (two, three) in self.opening)
        )

    def __contains__(self, pair: tuple[str, str]) -> bool:
        return pair in self.inside or (pair[0] in self.last and pair[1] in self.first)


def _texts(tree: ast.AST) -> Iterator[str]:
    skipped: set[int] = set()
    for node in ast.walk(tree):
        # A docstring is not printed, and parts of a text are read with it.
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else f" {_HOLE} " for part in node.values
            )
