"""RocketMQ's names of the versions that clients tell by a number (MQVersion)."""

#: The number of V4_0_0_SNAPSHOT. Since then there are ten versions of each x.y, each after its snapshot.
_FIRST = 212
_PER_MAJOR = 100


def version_name(number: int) -> str:
    """Return V4_9_8 for 409; of versions before 4, the number."""
    if number < _FIRST:
        return str(number)
    version, is_release = divmod(number - _FIRST, 2)
    major, rest = divmod(version, _PER_MAJOR)
    return f"V{4 + major}_{rest // 10}_{rest % 10}" + ("" if is_release else "_SNAPSHOT")
