"""The kernel needs no more instructions for the same work than when they were last recorded."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "kernel_instructions.py"
STATUS_CANNOT = 77
DUMP = """\
ob=(1) /usr/lib/libpython3.11.so
fn=(1) call
10 1000
ob=(2) /src/pyromq/_kernel/tails.so
fn=(2) add
20 30
+1 4
cob=(1)
cfn=(1)
calls=1 10
* 1000
-2 5
ob=(1)
fn=(3) more
30 700
"""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = spec_from_file_location(TOOL.stem, TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(900)
def test_the_kernel_needs_no_more_instructions_than_recorded() -> None:
    ended = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=False, timeout=800)
    if ended.returncode == STATUS_CANNOT:
        pytest.skip(ended.stdout.strip())

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_only_what_ran_in_the_kernel_itself_is_counted(tool: ModuleType) -> None:
    assert tool.spent_in("/pyromq/_kernel/", DUMP.splitlines()) == 39


@pytest.mark.parametrize(("now", "status"), [(90.0, 0), (110.0, 0), (111.0, 1)])
def test_more_than_a_tenth_more_fails(tool: ModuleType, now: float, status: int) -> None:
    assert tool.compare({"sends": 100.0}, {"sends": now}) == status


def test_work_that_was_never_recorded_fails(tool: ModuleType) -> None:
    assert tool.compare({}, {"sends": 100.0}) == 1


def test_counts_of_other_tools_are_not_compared(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = {"tools": {"uvloop": "1"}, "per_message": {"whole process": 100.0}}
    found = {"tools": {"uvloop": "2"}, "per_message": {"whole process": 900.0}}

    assert tool.compare_with(recorded, found) == STATUS_CANNOT
    assert "cannot compare: recorded with {'uvloop': '1'}" in capsys.readouterr().out
    assert tool.compare_with(found, found) == 0


def test_what_is_slower_is_told_though_something_else_cannot_be_compared(tool: ModuleType) -> None:
    assert tool.worst([STATUS_CANNOT, 1]) == 1
    assert tool.worst([0, STATUS_CANNOT]) == STATUS_CANNOT
    assert tool.worst([0, 0]) == 0
