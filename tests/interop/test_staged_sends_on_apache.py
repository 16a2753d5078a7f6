"""Apache's brokers do not know staged sends, and say so; nothing is stored."""

from collections.abc import Callable

import pytest
from harness.servers import OURS_AND_APACHES, Cluster

from pyromq.client.sync.staged import StagedSends
from pyromq.errors import StagedSendsUnsupported

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

APACHES = [kind for kind in OURS_AND_APACHES if kind.startswith("apache")]


@pytest.mark.parametrize("kind", APACHES)
def test_a_writer_is_told_what_to_do_instead(kind: str, running: Callable[[str], Cluster]) -> None:
    with (
        StagedSends(running(kind).name_server) as sends,
        pytest.raises(StagedSendsUnsupported, match="delivery=at-least-once"),
    ):
        sends.writer(query="q", batch=0, part=0).finish()
