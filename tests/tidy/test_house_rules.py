"""Rules that matter are run, not remembered (CONTRIBUTING.md tells them)."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import system_names

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SUPPORT = sorted((ROOT / "tests/support").glob("*.py"))
KERNEL = sorted(
    path for path in (ROOT / "src/pyromq/_kernel").rglob("*.p*") if path.suffix in (".pyx", ".pxd")
)

MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
BROKER_PARAMETERS_MAX = 8
EXAMPLE_LINES_MAX = 40
BANNED_IN_NAMES = re.compile(
    r"(Manager|Service|Helper|Util|Common|Base|Abstract|Impl|Default|Context|Info|Data)(?![a-z])"
)
#: A docstring that begins so does not name its subject.
HEADLESS = re.compile(r"(What|Who|How|Where|When|Which|Why)\b")
#: Names that belong to RocketMQ's or Spark's protocol, not to us.
PROTOCOL_NAMES = {
    "DataVersion",
    "BrokerData",
    "QueueData",
    "DefaultSource",
    "ServiceNotAvailable",
    "GetRouteInfo",
    "GetConsumerRunningInfo",
    "QueryDataVersion",
    "QueryDataVersionAnswer",
}


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def kernel_functions(path: Path) -> Iterator[tuple[int, int]]:
    """The functions of a Cython module, which Python cannot parse: where each begins, and its lines."""
    text = path.read_text()
    for head in re.finditer(
        r"^( *)(?:cdef|cpdef|def) (?!class\b)[^\n=(]*\([^)]*\)[^\n=]*:$", text, re.MULTILINE
    ):
        body = re.match(rf"(?:\n(?: *|{head[1]} +\S.*)(?=\n|\Z))*", text[head.end() :])
        assert body is not None
        lines = (head[0] + body[0]).rstrip().splitlines()
        yield text.count("\n", 0, head.start()) + 1, len(lines)


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def tracked_files() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def test_there_are_sources_and_tests_to_look_at() -> None:
    assert len(SOURCES) > 20
    assert len(TESTS) > 5
    assert len(KERNEL) > 10
    assert sum(1 for path in KERNEL for _ in kernel_functions(path)) > 100


def test_no_module_is_longer_than_the_limit() -> None:
    modules = SOURCES + SUPPORT + KERNEL
    long = [str(path) for path in modules if len(path.read_text().splitlines()) > MODULE_LINES_MAX]
    assert not long


def test_no_function_is_longer_than_the_limit() -> None:
    long = [
        where(path, node)
        for path in SOURCES
        for node in functions(path)
        if (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    long += [
        f"{path.relative_to(ROOT)}:{line}"
        for path in KERNEL
        for line, length in kernel_functions(path)
        if length > FUNCTION_LINES_MAX
    ]
    assert not long


def test_no_function_of_a_broker_has_more_parameters_than_the_limit() -> None:
    """A room is built from what it needs; a function that needs more than this knows too much."""
    crowded = [
        f"{where(path, node)} {node.name}"
        for path in sorted((ROOT / "src/pyromq/broker").rglob("*.py"))
        for node in functions(path)
        if len(_parameters(node)) > BROKER_PARAMETERS_MAX
    ]
    assert not crowded


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = node.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def test_every_module_says_what_it_is() -> None:
    silent = [str(path) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))]
    silent += [str(path) for path in KERNEL if not path.read_text().startswith('"""')]
    assert not silent


def test_no_docstring_begins_with_a_headless_clause() -> None:
    """A docstring names its subject first: "The number of held pulls", not "How many are held"."""
    headless = [
        where(path, node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and HEADLESS.match(ast.get_docstring(node) or "")
    ]
    headless += [
        f"{path.relative_to(ROOT)}:{number}"
        for path in KERNEL
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.lstrip().startswith('"""') and HEADLESS.match(line.strip().strip('"'))
    ]
    assert not headless


def test_quotation_marks_are_english() -> None:
    files = [
        path
        for path in sorted((ROOT / "src").rglob("*"))
        if path.suffix in (".py", ".pyx", ".pxd", ".md") and path.is_file()
    ]
    assert len(files) > len(SOURCES) + len(KERNEL)
    marked = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "\u00ab" in line or "\u00bb" in line
    ]
    assert not marked


def test_class_names_say_what_the_thing_is() -> None:
    vague = [
        f"{where(path, node)} {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and BANNED_IN_NAMES.search(node.name)
        and node.name not in PROTOCOL_NAMES
    ]
    assert not vague


def _only_cleans_up(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_only_the_borders_catch_everything() -> None:
    borders = {
        "app/handler.py",  # the application's code: what it raises is an outcome
        "cli/service/target.py",  # whatever a user's module raises is said in one line
        "net/routes.py",  # errors become answers
        "broker/grpc/grpc_table.py",  # errors become statuses
        "net/inlet.py",  # a mistake of a shortcut must not touch later turns
        "net/turn.py",  # a step that fails must not keep answers back
        "net/http2/grpc_link.py",  # a mistake on one connection must not touch the others
        "net/http2/plain_call.py",  # the same for a call that is there as a whole
        "net/http2/server_call.py",  # whatever a handler raises ends its call
        "net/link.py",  # a mistake on one connection must not touch the others
        "broker/background.py",  # the owner of the background loops
        "broker/grpc/grpc_port.py",  # whatever fails to load, connections wait and are closed
        "broker/json_table.py",  # a stop: whatever one table's save raises, the others are saved
        "broker/failover/supervisor.py",  # the owner of the loop that makes the decisions
        "broker/kinds/timers/keeper.py",  # the owner of the loop that keeps the table of what waits
        "client/background_work.py",
        "client/drivers.py",  # every error of a step is thrown into the plan
        "client/producer/callbacks.py",  # the application's code, which nobody waits for
        "client/push/calling.py",  # the application's code: what it raises is a retry
        "client/consumer/rebalancer.py",  # the application's strategy; other topics do not depend on it
        "client/consumer/intervals.py",  # the owner of a consumer's background loops
        "client/hooks.py",  # the application's code, which a send does not depend on
        "client/producer/transactions.py",  # the application: an error leaves a transaction open
        "dashboard/health.py",  # the owner of the task that has the cluster examined
        "dashboard/sampler.py",  # the owner of the loop that looks at the cluster
        "namesrv/background.py",
        "testing/simulation/simulated_loop.py",  # what a thread raises goes to whoever waits for it
        "outbox/relay_operations.py",  # a relay outlives whatever the database's driver raises
        "pyspark_rocketmq/pipelines/spark_views.py",  # Spark's errors are py4j's, gRPC's or its own
    }
    broad = [
        where(path, node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
        and not _only_cleans_up(node)
        and path.relative_to(ROOT / "src").as_posix().removeprefix("pyromq/") not in borders
    ]
    assert not broad


def test_files_are_opened_through_the_store_s_one_door() -> None:
    door = {"files.py", "read_only_files.py", "atomic_file.py", "account_files.py"}
    folders = [ROOT / "src/pyromq" / name for name in ("store", "broker", "namesrv")]
    opened = [
        where(path, node)
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
        if path.name not in door
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("open", "os.open", "mmap.mmap")
    ]
    assert not opened


def test_nothing_reads_the_environment_outside_the_command_line() -> None:
    allowed = ("cli/", "client/environment.py", "kernel.py")
    readers = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "src/pyromq").rglob("*.py"))
        if "os.environ" in path.read_text()
        and not path.relative_to(ROOT / "src/pyromq").as_posix().startswith(allowed)
    ]
    assert not readers


def test_tests_do_not_sleep() -> None:
    sleepers = [
        where(path, node)
        for path in TESTS
        # It makes others wait, to see what becomes of tests that do not.
        if path.name != "haste.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep")
        and not (node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0)
    ]
    assert not sleepers


def test_test_modules_have_names_of_their_own() -> None:
    names = Counter(path.name for path in TESTS if path.name.startswith("test_"))
    assert not [name for name, count in names.items() if count > 1]


def test_every_row_that_a_test_names_exists() -> None:
    known = {line.split("\t")[0] for line in (ROOT / "tests/rows.tsv").read_text().splitlines()}
    named = re.compile(r'"([A-Z]{2}-\d\d)"')
    unknown = [
        f"{path.relative_to(ROOT)}: {row}"
        for path in TESTS
        for line in path.read_text().splitlines()
        if "mark.row" in line
        for row in named.findall(line)
        if row not in known
    ]
    assert not unknown


def test_every_invariant_of_the_store_names_a_test_and_every_test_it_names_exists() -> None:
    design = (ROOT / "src/pyromq/store/DESIGN.md").read_text()
    known = {path.stem for path in TESTS}
    assert not set(re.findall(r"\btest_\w+", design)) - known
    promised = design.partition("## What is promised")[2].partition("\n## ")[0]
    invariants = [line for line in promised.splitlines() if line.startswith("|")][2:]
    assert len(invariants) > 10
    assert not [line for line in invariants if not re.search(r"\btest_\w+", line.split("|")[2])]


def test_no_committed_file_names_a_registry_s_host() -> None:
    hosts = re.compile(
        rb"(files\.pythonhosted|pypi\.python|" + rb"pypi" + rb"\.org|repo1?\.maven\.apache|" + rb"registry"
        rb"\.npm" + rb"js|proxy\.golang|sum\.golang)"
    )
    found = [
        str(path.relative_to(ROOT))
        for path in tracked_files()
        if path != Path(__file__) and hosts.search(path.read_bytes())
    ]
    assert not found


def test_no_work_is_left_as_a_marker() -> None:
    marker = re.compile(r"\b(" + "TO" + "DO|FIX" + r"ME|XXX:)\b")
    left = [str(path.relative_to(ROOT)) for path in SOURCES + TESTS if marker.search(path.read_text())]
    assert not left


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_fits_a_screen(path: Path) -> None:
    assert path.name == "demo.py" or len(path.read_text().splitlines()) <= EXAMPLE_LINES_MAX


def test_architecture_stays_under_two_hundred_lines() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) < 200


def test_clients_are_told_the_end_of_a_queue_that_readers_see() -> None:
    """`max_offset` counts what a lost master takes with it; see `StoredMessages.readable_end`."""
    handlers = sorted((ROOT / "src/pyromq/broker/requests/handlers").glob("*.py"))
    assert len(handlers) > 10
    raw = [
        where(path, node)
        for path in handlers
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func).endswith("_store.max_offset")
    ]
    assert not raw


def test_the_systems_names_stand_in_one_module() -> None:
    """Eight lists of them differed: the dashboard and Spark took system topics for users'."""
    names = {*system_names.SYSTEM_TOPICS, *system_names.BROKERS_OWN, system_names.TRANSACTION_GROUP}
    # Defaults that users read in the settings and in the help of commands.
    shown = {system_names.AUTO_CREATE, system_names.TRACE}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        if path.name != "system_names.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in names - shown
    ]
    assert not found


#: Modules of servers that hand blocking work to threads, as ARCHITECTURE.md says.
WITH_THREADS = {
    "broker/access/control.py": "account files",
    "broker/broker.py": "the store is opened and closed",
    "broker/durability/log_sync.py": "syncs",
    "broker/grpc/grpc_port.py": "what serves gRPC is imported with its first connection",
    "broker/failover/supervisor.py": "what a replica remembers of itself",
    "broker/durability/file_removal.py": "files that are removed",
    "broker/json_table.py": "tables",
    "broker/registration_targets.py": "an HTTP address",
    "broker/kinds/timers/keeper.py": "SQLite",
    "namesrv/key_values.py": "tables",
    "namesrv/namesrv_live_settings.py": "tables",
    "net/status_server.py": "metrics and health have a server of their own",
    "net/loop.py": "looks up names, each on a thread of its own",
}
WITH_LOCKS = {"broker/access/control.py": "account files", "store/store.py": "threads that sync the log"}


def _calling(names: re.Pattern[str], *folders: str) -> set[str]:
    """Return the modules of some packages that call something of these names."""
    package = ROOT / "src/pyromq"
    return {
        str(path.relative_to(package))
        for path in SOURCES
        if path.is_relative_to(package) and path.relative_to(package).parts[0] in folders
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.Name) and names.fullmatch(ast.unparse(node))
    }


def test_only_known_modules_of_servers_have_threads() -> None:
    names = re.compile(r"(asyncio\.)?to_thread|(\w+\.)*(ThreadPoolExecutor|Thread)|.*\.run_in_executor")
    assert _calling(names, "broker", "store", "namesrv", "net") == set(WITH_THREADS)


def test_no_message_waits_for_a_lock() -> None:
    names = re.compile(
        r"(asyncio|threading|multiprocessing)\.(Lock|RLock|Condition|Semaphore|BoundedSemaphore)"
    )
    assert _calling(names, "broker", "store") == set(WITH_LOCKS)


def test_a_server_plans_the_end_of_its_turns_in_one_place() -> None:
    turns = {"net/inlet.py", "net/turn.py"}
    assert _calling(re.compile(r".*\.call_soon"), "broker", "store", "namesrv", "net") == turns
