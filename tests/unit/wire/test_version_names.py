import pytest

from pyromq.wire.version_names import version_name


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (139, "139"),
        (212, "V4_0_0_SNAPSHOT"),
        (213, "V4_0_0"),
        (233, "V4_1_0"),
        (409, "V4_9_8"),
        (410, "V4_9_9_SNAPSHOT"),
        (413, "V5_0_0"),
        (479, "V5_3_3"),
        (513, "V5_5_0"),
    ],
)
def test_a_version_has_the_name_that_rocketmq_gives_it(number: int, name: str) -> None:
    assert version_name(number) == name
