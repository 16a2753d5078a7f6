"""The tests of docs/howto/testing.md with `--pyromq-namesrv`, beside Apache's brokers."""

from collections.abc import Callable
from pathlib import Path

import pytest
from harness.servers import OURS_AND_APACHES, Cluster
from page_blocks import page_blocks

from pyromq import Admin
from pyromq.testing import BrokerOfTest

# Imported here, so that a session inside a test need not import it anew.
__all__ = ["BrokerOfTest"]

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

PAGE = Path(__file__).parents[2] / "docs/howto/testing.md"
QUIET = ("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:timeout", "-W", "error", "-q")
#: What the page has no test of: what a group gives up at once.
GIVEN_UP = """
from pyromq import PushConsumer

def test_what_a_group_gives_up_is_found(pyromq_broker):
    topic, group = pyromq_broker.topic("orders"), pyromq_broker.group("billing", retries=0)
    consumer = PushConsumer(
        group, pyromq_broker.name_server, listener=lambda _message: False, max_reconsume_times=0
    )
    consumer.subscribe(topic)
    with consumer:
        pyromq_broker.send(topic, "never", delay_level=1)
        (dead,) = pyromq_broker.dead_letters("billing", at_least=1)
    assert dead.message.body == b"never"
"""


@pytest.mark.parametrize("kind", OURS_AND_APACHES)
def test_the_tests_of_the_page_pass_there_and_leave_nothing(
    kind: str, running: Callable[[str], Cluster], pytester: pytest.Pytester
) -> None:
    address = running(kind).name_server
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    for block in page_blocks(PAGE):
        first, _, rest = block.text.partition("\n")
        if block.kind == "python" and first.startswith("# "):
            (pytester.path / first.removeprefix("# ")).write_text(rest)
    (pytester.path / "conftest.py").write_text("from test_billing import billing\n")
    (pytester.path / "test_given_up.py").write_text(GIVEN_UP)

    result = pytester.runpytest_inprocess(*QUIET, "--pyromq-namesrv", address)

    result.assert_outcomes(passed=3, skipped=4)
    with Admin(address) as admin:
        ours = ("orders-", "invoices-", "topic-", "%RETRY%billing-", "%DLQ%billing-")
        # On Java 17 a 4.9 broker forgets a topic, fails to remove its files, and the name server is not told.
        left = [
            topic
            for broker in admin.brokers()
            for topic in admin.topic_configs(broker.address).topic_config_table
            if topic.startswith(ours)
        ]
    assert left == []
