"""Keys that have a hash that is wanted: the index of keys keeps nothing else of them."""

from pyromq.wire.java_hash import java_hash


def key_with_hash(topic: str, wanted: int) -> str:
    """Return seven characters whose hash, behind "topic#", is `wanted`: its digits to the base of 31."""
    powers = [31**place for place in reversed(range(7))]
    rest = (wanted - java_hash(f"{topic}#") * 31**7 - sum(ord("!") * power for power in powers)) % 2**32
    return "".join(chr(ord("!") + rest // power % 31) for power in powers)
