"""docs/howto/testing.md: its programs and its tests as they stand there, beside brokers of two kinds."""

import shlex
from pathlib import Path

import pytest
from page_blocks import page_blocks

from pyromq.testing import BrokerOfTest, running_cluster

# Imported here, so that a session inside a test need not import it anew.
__all__ = ["BrokerOfTest"]

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[2] / "docs/howto/testing.md"
SHOWN = "127.0.0.1:9876"
#: As a project that takes warnings for errors; without what our own environment has besides.
QUIET = ("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:timeout", "-W", "error", "-q")


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with all files that the page shows; fixtures of the first test are for all."""
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    for block in page_blocks(PAGE):
        first, _, rest = block.text.partition("\n")
        if block.kind == "python" and first.startswith("# "):
            (pytester.path / first.removeprefix("# ")).write_text(rest)
    (pytester.path / "conftest.py").write_text("from test_billing import billing\n")
    return pytester


def test_the_tests_of_the_page_pass(project: pytest.Pytester) -> None:
    project.runpytest_inprocess(*QUIET).assert_outcomes(passed=6)


def test_the_tests_of_the_page_pass_beside_a_broker_that_was_there(project: pytest.Pytester) -> None:
    (command,) = (block for block in page_blocks(PAGE) if block.when == "real")
    with running_cluster() as real:
        words = shlex.split(command.text.replace(SHOWN, real.namesrv_address))[3:]

        project.runpytest_inprocess(*QUIET, *words).assert_outcomes(passed=2, skipped=4)


def test_the_program_without_pytest_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = (block for block in page_blocks(PAGE) if block.text.startswith("from pyromq.testing"))

    exec(compile(program.text, program.place, "exec"), {})  # the project's own page, as a reader runs it

    assert capsys.readouterr().out.startswith("127.0.0.1:")
