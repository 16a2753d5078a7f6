"""Commands that the program prints: in findings, errors, greetings, help and web pages, out of its source.

A command is told apart from the sentence around it: it stands in backticks, in [cyan]…[/cyan], or from its
first word to the end of its line.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
#: What stands for a part of a text that is known only when it is printed; it holds the part's own source.
_HOLE = re.compile("\x01([^\x02]*)\x02")
_MARKED = re.compile(r"`([^`\n]*)`|\[cyan\](.*?)\[/cyan\]")
_COMMAND = re.compile(r"(?<![\w./-])pyromq (?=[a-z\x01])[^\n]*")
_ASSIGNMENTS = re.compile(r"^(?:[A-Z_]+=\S+ )+")
#: What may stand before a command that goes on to the end of its line.
_LEADS = ("\n", ": ", "| ", "next  ", "then  ", "… ", "<code>")
_SCRIPT_TEXT = re.compile(r"(?<![\w./-])pyromq [a-z][^\"`\n.;?]*")


@dataclass(frozen=True, slots=True)
class Printed:
    """A command, where it stands, and whether the whole text is the command."""

    place: str
    command: str
    #: Whether it can be told where the command begins and ends.
    is_marked: bool

    def filled(self, values: "Filling") -> str:
        """Return the command with values in place of what is known only when it is printed."""
        return _HOLE.sub(lambda hole: values(hole[1]), self.command)

    @property
    def holes(self) -> list[str]:
        """The parts that are known only when it is printed, as their source has them."""
        return _HOLE.findall(self.command)


class Filling:
    """Values by the name at the end of a part's source: `survey.at`, `{group.name}`."""

    def __init__(self, values: dict[str, str], otherwise: str) -> None:
        self._values = values
        self._otherwise = otherwise

    def __call__(self, source: str) -> str:
        for name, value in self._values.items():
            if re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", source):
                return value
        return self._otherwise


def printed_commands(folder: Path = SOURCE) -> list[Printed]:
    """Return the commands that the source of a package prints."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        if "pyromq " in text:
            place = str(path.relative_to(SOURCE))
            found += [one for node in _texts(ast.parse(text)) for one in _commands(node, place)]
    for path in sorted(folder.rglob("*.js")):
        place = str(path.relative_to(SOURCE))
        found += [Printed(place, each.strip(), True) for each in _SCRIPT_TEXT.findall(path.read_text())]
    return found


def _texts(tree: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Yield the texts of a module that somebody may read, without parts of texts and docstrings."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            skipped.add(id(body[0].value))
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str)
        ):
            yield node


def _commands(node: ast.Constant | ast.JoinedStr, module: str) -> Iterator[Printed]:
    text = _written(node)
    place = f"{module}:{node.lineno}"
    marked = _MARKED.sub("", text)
    for inside in (one or other for one, other in _MARKED.findall(text)):
        if (command := _COMMAND.search(_ASSIGNMENTS.sub("", inside))) is not None:
            yield Printed(place, command[0], True)
    for command in _COMMAND.findall(marked):
        before = marked[: marked.index(command)]
        yield Printed(place, command, not before.strip() or before.endswith(_LEADS))


def _written(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "".join(
        str(part.value)
        if isinstance(part, ast.Constant)
        else "\x01" + ast.unparse(part).replace("pyromq ", "pyromq_") + "\x02"
        for part in node.values
    )
