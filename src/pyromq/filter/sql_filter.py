"""SQL92 filters: from the text of a subscription to a test of a message's properties.

    amount > 10 AND (region IN ('north', 'east') OR note IS NOT NULL)

The grammar and the meaning are RocketMQ's, with the words for parts of strings that 5.x has. Two things
differ, on purpose: what follows a whole expression is refused (RocketMQ ignores it, and `a = 1 LIKE 'x'` is
`a = 1` there), and 0.0 is a number. An expression is compiled once and evaluated for each message.
"""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pyromq.errors import FilterError
from pyromq.filter import sql_nodes as nodes
from pyromq.filter.java_values import NoResult, Value
from pyromq.filter.sql_nodes import SqlNode
from pyromq.name_rules import EXPRESSION_CHARACTERS_MAX
from pyromq.text_cache import text_cache

if TYPE_CHECKING:
    from lark import Lark, Token, UnexpectedInput

#: A filter takes up to 70 bytes for each character of its text.
CACHE_CHARACTERS_MAX: Final = 512 * 1024
_GRAMMAR: Final = r"""
    start: disjunction
    disjunction: conjunction (OR conjunction)*
    conjunction: _equality (AND _equality)*
    _equality: comparison | equal | unequal | null | not_null
    equal: _equality "=" comparison
    unequal: _equality "<>" comparison
    null: _equality IS NULL
    not_null: _equality IS NOT NULL
    comparison: _unary | ordered | between | not_between | in_list | not_in_list | text_test | not_text_test
    ordered: comparison SIGN _unary
    between: comparison BETWEEN _unary AND _unary
    not_between: comparison NOT BETWEEN _unary AND _unary
    in_list: comparison IN "(" STRING ("," STRING)* ")"
    not_in_list: comparison NOT IN "(" STRING ("," STRING)* ")"
    text_test: comparison TEXT_WORD STRING
    not_text_test: comparison NOT TEXT_WORD STRING
    _unary: plus | minus | negated | _primary
    plus: "+" _unary
    minus: MINUS _unary
    negated: NOT _unary
    _primary: literal | name | "(" disjunction ")"
    literal: STRING | WHOLE | DECIMAL | TRUE | FALSE | NULL
    name: NAME | TEXT_WORD

    SIGN: /<=|>=|<(?!>)|>/
    MINUS: "-"
    OR: "OR"i
    AND: "AND"i
    NOT: "NOT"i
    BETWEEN: "BETWEEN"i
    IN: "IN"i
    IS: "IS"i
    TRUE: "TRUE"i
    FALSE: "FALSE"i
    NULL: "NULL"i
    TEXT_WORD.2: /(CONTAINS|STARTSWITH|ENDSWITH)(?![a-z0-9_$])/i
    NAME: /[a-z_$][a-z0-9_$]*/i
    DECIMAL.2: /[0-9]+\.[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+/i
    WHOLE: /0|[1-9][0-9]*l?/i
    STRING: /'(''|[^'])*'/
    %ignore /[ \t\n\r\f]+/
    %ignore /--[^\n\r]*/
    %ignore /\/\*(.|\n)*?\*\//
"""

#: How a message about an error calls what the grammar expects.
_WORDS: Final = {
    "STRING": "a string in single quotes",
    "WHOLE": "a number",
    "DECIMAL": "a number",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": ",",
    "$END": "the end",
}


class SqlFilter:
    """A compiled expression."""

    __slots__ = ("_evaluate", "text")

    def __init__(self, text: str, evaluate: Callable[[Mapping[str, str]], Value]) -> None:
        self.text = text
        self._evaluate = evaluate

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Return whether a message with these properties is wanted; null, or no result at all, is no."""
        try:
            return self._evaluate(properties) is True
        except NoResult:
            return False


@text_cache(CACHE_CHARACTERS_MAX)
def compile_sql(text: str) -> SqlFilter:
    """Return the filter that an expression is; raise FilterError with the place and the cause."""
    if len(text) > EXPRESSION_CHARACTERS_MAX:
        raise FilterError(f"more than {EXPRESSION_CHARACTERS_MAX} characters", EXPRESSION_CHARACTERS_MAX)
    # Only now: most brokers and clients never see such a filter.
    from lark import UnexpectedInput

    try:
        root: Any = _parser().parse(text)
    except UnexpectedInput as error:
        raise _refusal(text, error) from None
    return SqlFilter(text, nodes.truth(root).evaluate)


def prepare() -> None:
    """Read the grammar now, which takes a tenth of a second, and not with the first expression."""
    _parser()


@cache
def _parser() -> "Lark":
    from lark import Lark

    builder: Any = _Builder()
    # With the basic lexer a reserved word is no property's name, wherever it stands.
    return Lark(_GRAMMAR, parser="lalr", lexer="basic", transformer=builder)


def _refusal(text: str, error: "UnexpectedInput") -> FilterError:
    token = getattr(error, "token", None)
    expected = _expected(getattr(error, "expected", None) or ())
    if token is not None and token.type == "$END":
        return FilterError(f"the expression ends where {expected} is expected", len(text))
    at = error.pos_in_stream or 0
    if token is not None:
        return FilterError(f"{str(token)!r} stands where {expected} is expected", at)
    if text[at] == "'":
        return FilterError("the string that begins here has no end", at)
    return FilterError(f"{text[at]!r} means nothing here", at)


def _expected(terminals: Collection[str]) -> str:
    if "NAME" in terminals:
        return "a property or a value"
    if "SIGN" in terminals:
        return "an operator, AND, OR or the end"
    return " or ".join(sorted({_WORDS.get(name, name) for name in terminals}))


class _Builder:
    """Makes nodes of what the parser has recognized; the methods bear the names of the grammar's rules."""

    def start(self, parts: list[SqlNode]) -> SqlNode:
        return parts[0]

    def disjunction(self, parts: "list[SqlNode | Token]") -> SqlNode:
        return parts[0] if len(parts) == 1 else nodes.any_of(parts[::2])  # type: ignore[return-value, arg-type]

    def conjunction(self, parts: "list[SqlNode | Token]") -> SqlNode:
        return parts[0] if len(parts) == 1 else nodes.all_of(parts[::2])  # type: ignore[return-value, arg-type]

    def comparison(self, parts: list[SqlNode]) -> SqlNode:
        return parts[0]

    def equal(self, parts: list[SqlNode]) -> SqlNode:
        return nodes.equal(*parts)

    def unequal(self, parts: list[SqlNode]) -> SqlNode:
        return nodes.negated(parts[0].at, nodes.equal(*parts))

    def null(self, parts: list[SqlNode]) -> SqlNode:
        return nodes.is_null(parts[0])

    def not_null(self, parts: list[SqlNode]) -> SqlNode:
        return nodes.negated(parts[0].at, nodes.is_null(parts[0]))

    def ordered(self, parts: list[Any]) -> SqlNode:
        left, sign, right = parts
        return nodes.ordered(left, str(sign), right)

    def between(self, parts: list[Any]) -> SqlNode:
        value, _, low, _, high = parts
        return nodes.between(value, low, high)

    def not_between(self, parts: list[Any]) -> SqlNode:
        value, _, _, low, _, high = parts
        return nodes.not_between(value, low, high)

    def in_list(self, parts: list[Any]) -> SqlNode:
        value, _, *members = parts
        return nodes.in_list(value, [_unquoted(member) for member in members], is_in=True)

    def not_in_list(self, parts: list[Any]) -> SqlNode:
        value, _, _, *members = parts
        return nodes.in_list(value, [_unquoted(member) for member in members], is_in=False)

    def text_test(self, parts: list[Any]) -> SqlNode:
        value, word, search = parts
        return nodes.text_test(value, word.upper(), _unquoted(search), is_so=True)

    def not_text_test(self, parts: list[Any]) -> SqlNode:
        value, _, word, search = parts
        return nodes.text_test(value, word.upper(), _unquoted(search), is_so=False)

    def plus(self, parts: list[SqlNode]) -> SqlNode:
        return parts[0]

    def minus(self, parts: list[Any]) -> SqlNode:
        sign, value = parts
        return nodes.minus(sign.start_pos, value)

    def negated(self, parts: list[Any]) -> SqlNode:
        word, value = parts
        return nodes.negated(word.start_pos, value)

    def name(self, parts: "list[Token]") -> SqlNode:
        return nodes.named(_start(parts[0]), str(parts[0]))

    def literal(self, parts: "list[Token]") -> SqlNode:
        token = parts[0]
        return _LITERALS[token.type](_start(token), str(token))


def _start(token: "Token") -> int:
    return token.start_pos or 0


def _unquoted(token: "Token") -> str:
    return str(token)[1:-1].replace("''", "'")


_LITERALS: Final[dict[str, Callable[[int, str], SqlNode]]] = {
    "STRING": nodes.text_literal,
    "WHOLE": nodes.whole_number,
    "DECIMAL": nodes.decimal_number,
    "TRUE": lambda at, _text: nodes.constant(at, value=True),
    "FALSE": lambda at, _text: nodes.constant(at, value=False),
    "NULL": lambda at, _text: nodes.constant(at, value=None),
}
