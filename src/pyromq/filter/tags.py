"""Tag expressions: `A || B`, or `*` for all."""

ALL = "*"


def wants_all(expression: str | None) -> bool:
    """Whether an expression wants every message, with any tag or none."""
    return expression is None or expression in ("", ALL)


def parse_tags(expression: str | None) -> frozenset[str]:
    """Return the tags that an expression names; none where it wants all.

    An expression of bars and blanks only (`||`) names no tag and wants nothing, as in RocketMQ.
    """
    if expression is None or wants_all(expression):
        return frozenset()
    return frozenset(tag for part in expression.split("||") if (tag := part.strip()))
