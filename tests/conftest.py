"""What holds for all tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# A slow machine is no reason to fail: nothing here is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

#: The files that take longest: with several workers these begin first, so that none is left alone at the end.
LONGEST = (
    "test_install.py",
    "test_same_files.py",
    "test_demo.py",
    "test_push_with_java.py",
    "test_our_client_on_apache.py",
    "test_spark_batch.py",
    "test_mixed_group_under_load.py",
    "test_kinds_of_java.py",
)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Say which tests must share a worker (`--dist loadgroup`), and, when they are shuffled, order them."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item.path, getattr(item, "callspec", None))))
    yield
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


def _group(path: Path, call: Any) -> str:
    """Return what tests that share servers have in common: their file, or the story that they look at."""
    if call is None or "story" not in call.params:
        return path.name
    return "-".join((path.name, str(call.params["story"]), str(call.params.get("cluster_kind", ""))))
