"""A source that brings its code along: from the user's process to a planner, and on to an executor."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from pyromq.errors import ConfigError
from pyspark_rocketmq.shipping import check_python

#: A Python that has what others made, and nothing of ours.
ELSEWHERE = """
import pickle, sys
sys.path[:] = [folder for folder in sys.path if not folder.endswith("src")]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder).lower()]
try:
    import pyromq
except ImportError:
    pass
else:
    raise SystemExit("pyromq can be imported here, and nothing is tested")
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict
"""
USER = """
from pyspark import cloudpickle
from types import SimpleNamespace
import sys
import pyspark_rocketmq

def register(source):
    open(sys.argv[1], "wb").write(cloudpickle.dumps(source))

spark = SimpleNamespace(dataSource=SimpleNamespace(register=register))
pyspark_rocketmq.register(spark)
"""
PLANNER = (
    ELSEWHERE
    + """
options = CaseInsensitiveDict({"nameserver": "ns:9876", "subscribe": "t"})
source = pickle.load(open(sys.argv[1], "rb"))(options)
source = pickle.loads(cloudpickle.dumps(source))
schema = source.schema()
readers = source.reader(schema), source.streamReader(schema)
from pyspark_rocketmq.source.planning import QueueRange, RangeTask
from pyromq.model import MessageQueue
task = RangeTask((QueueRange(MessageQueue("t", "b", 0), 0, 5),))
open(sys.argv[1], "wb").write(cloudpickle.dumps(readers[0]))
open(sys.argv[1] + ".stream", "wb").write(cloudpickle.dumps(readers[1]))
open(sys.argv[1] + ".task", "wb").write(cloudpickle.dumps(task))
"""
)
EXECUTOR = (
    ELSEWHERE
    + """
for name in ("", ".stream"):
    reader = pickle.load(open(sys.argv[1] + name, "rb"))
    print(type(reader).__module__, type(reader).__name__)
print(pickle.load(open(sys.argv[1] + ".task", "rb")).ranges[0].end)
from pyromq.kernel import IS_COMPILED
print(IS_COMPILED)
"""
)


def run(program: str, parcel: Path) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(parcel)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split("\n")[:-1]


def test_the_code_arrives_where_it_is_not_installed(tmp_path: Path) -> None:
    parcel = tmp_path / "parcel"

    run(USER, parcel)
    assert parcel.stat().st_size < 1_000_000
    run(PLANNER, parcel)
    found = run(EXECUTOR, parcel)

    # The kernel is compiled, and stays at home.
    assert found == [
        "pyspark_rocketmq.source.batch_read TopicReader",
        "pyspark_rocketmq.source.stream TopicStream",
        "5",
        "False",
    ]


def test_a_python_without_the_packages_is_named_with_the_way_out(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)

    with pytest.raises(ConfigError, match=r"No module named 'pyarrow'. Set PYSPARK_PYTHON"):
        check_python(SimpleNamespace(sparkContext=SimpleNamespace(pythonExec=str(bare))))
    with pytest.raises(ConfigError, match="no-python"):
        check_python(SimpleNamespace(sparkContext=SimpleNamespace(pythonExec="/no-python")))
    check_python(SimpleNamespace(sparkContext=SimpleNamespace(pythonExec=sys.executable)))
    check_python(SimpleNamespace())


def test_finding_the_source_imports_nothing_heavy() -> None:
    program = (
        "import sys, pyspark_rocketmq; source = pyspark_rocketmq.DefaultSource; print(source.name());"
        "print([name for name in ('pyarrow', 'numpy', 'pandas', 'msgspec', 'pyromq') if name in sys.modules])"
    )

    assert run(program, Path())[0] == "rocketmq"
    assert "pyromq" not in run(program, Path())[1]
    assert "msgspec" not in run(program, Path())[1]


def test_a_python_without_pyarrow_still_finds_the_source_and_explains_itself(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None; sys.modules['pyarrow.lib'] = None\n"
        "from pyspark.sql.datasource import CaseInsensitiveDict\n"
        "import pyspark_rocketmq\n"
        "source = pyspark_rocketmq.DefaultSource(CaseInsensitiveDict({}))\n"
        "try: source.schema()\n"
        "except ModuleNotFoundError as error: print(error)\n"
    )

    (said,) = run(program, tmp_path)

    assert "needs pyarrow" in said
    assert "set PYSPARK_PYTHON" in said
