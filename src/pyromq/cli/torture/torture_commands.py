"""`pyromq torture`: a cluster on this machine, load of every kind, faults, and how the promises fared."""

import asyncio
import logging
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pyromq.cli import options, output
from pyromq.cli.exit_status import DONE, FAILED, ended_by_errors
from pyromq.cli.torture import torture_options as chosen

if TYPE_CHECKING:
    from pyromq.cli.torture.torture_setup import TortureOrder
    from pyromq.torture.run_outcome import RunOutcome
    from pyromq.torture.torture_run import Order, Run

INTERRUPTED = 130
#: Seconds between two looks.
VIEW_S = 0.5


def torture(
    *,
    minutes: chosen.Minutes = 2.0,
    brokers: chosen.Brokers = 1,
    replicas: chosen.Replicas = 1,
    sync: chosen.Sync = False,
    flush: chosen.Flush = None,
    role: chosen.Role = None,
    etcd: chosen.Etcd = "auto",
    access_control: chosen.AccessControl = False,
    namespaces: chosen.Namespaces = False,
    assignments: chosen.Assignments = None,
    faults: chosen.Faults = None,
    list_faults: chosen.ListFaults = False,
    seed: chosen.Seed = None,
    only: chosen.Only = None,
    pace: chosen.Pace = 4.0,
    rounds: chosen.Rounds = 1,
    vary: chosen.Vary = False,
    data: chosen.Data = None,
    keep: chosen.Keep = False,
    png: chosen.Picture = None,
    as_json: options.Json = False,
) -> None:
    """Torture a cluster on this machine and this disk, and see whether it keeps its promises.

    Starts name servers and brokers as processes, and sends them messages of
    every kind while things go wrong: processes die or stand still, networks
    are cut, disks are full. Then all is healed, and each promise is checked:
    nothing acknowledged is lost, and nothing comes twice, out of order, early,
    or to whom it is not for. Exit status 1 when a promise was broken.

    Ctrl-C ends the load, and what was done until then is judged.
    docs/howto/torture.md says what each fault shows, and what it cannot.
    """
    from pyromq.cli.torture.torture_setup import TortureOrder, say_faults

    asked = TortureOrder(
        minutes=minutes,
        brokers=brokers,
        replicas=replicas,
        is_sync_flush=sync if flush is None else flush is chosen.Wait.SYNC,
        is_sync_master=(sync if role is None else role is chosen.Wait.SYNC) and replicas > 1,
        etcd=etcd,
        has_access_control=access_control,
        has_namespaces=namespaces,
        assignments=tuple(assignments or ()),
        faults=faults,
        seed=seed,
        only=only,
        pace=pace,
        is_varied=vary,
        keeps_data=keep,
    )
    with ended_by_errors():
        if list_faults:
            say_faults(asked, is_json=as_json)
            return
        status = _torture_often(rounds, asked, data=data, png=png, is_json=as_json)
    raise typer.Exit(status)


def _torture_often(
    rounds: int, asked: "TortureOrder", *, data: Path | None, png: Path | None, is_json: bool
) -> int:
    """Do it with one seed after the other; return the status of the command."""
    from pyromq.cli.torture.torture_report import say_rounds
    from pyromq.cli.torture.torture_setup import seeded
    from pyromq.torture.timeline import check_picture

    if png is not None:
        check_picture(png)
    outcomes: list[RunOutcome] = []
    for one in seeded(asked, rounds):
        outcomes.append(_torture(one, data=data, png=png, is_json=is_json))
        if outcomes[-1].is_interrupted:
            break
    if len(outcomes) > 1 and not is_json:
        say_rounds(outcomes)
    if any(outcome.broken for outcome in outcomes):
        return FAILED
    return INTERRUPTED if outcomes[-1].is_interrupted else DONE


def _torture(asked: "TortureOrder", *, data: Path | None, png: Path | None, is_json: bool) -> "RunOutcome":
    from pyromq.cli.torture.torture_setup import new_folder, prepare

    say = output.note if is_json else output.say
    order, outcome = prepare(asked)
    folder = new_folder(data, outcome.seed)
    outcome.folder = folder
    outcome.command = _again(outcome.seed)
    for line in _hello(outcome, order):
        say(line)
    with _clients_log(folder / "clients.log"):
        run = _run(order, folder, outcome, is_json=is_json)
    _draw(run, png or (folder / "timeline.png" if data is not None else None))
    _clean_up(outcome, is_whole=data is None, keeps=asked.keeps_data)
    if is_json:
        output.say_json(outcome.as_record())
    else:
        from pyromq.cli.torture.torture_report import say_outcome

        say_outcome(outcome, run.history)
    return outcome


def _hello(outcome: "RunOutcome", order: "Order") -> Iterator[str]:
    yield f"seed {outcome.seed}: {outcome.cluster}, {order.seconds / 60:g} min; data in {outcome.folder}"
    yield f"faults: {', '.join(outcome.families) or 'none'}"
    for name, reason in outcome.left_out.items():
        yield f"left out: {name}: {reason}"


def _run(order: "Order", folder: Path, outcome: "RunOutcome", *, is_json: bool) -> "Run":
    from pyromq.torture.killable_clients import LivesLoop
    from pyromq.torture.torture_run import Run, watched

    async def main() -> "Run":
        run = Run(order, folder, outcome)
        with _interruptible(run), _view(run, is_json=is_json) as (look, every_s):
            await watched(run, look, every_s)
        return run

    with asyncio.Runner(loop_factory=LivesLoop) as runner:
        return runner.run(main())


@contextmanager
def _interruptible(run: "Run") -> Iterator[None]:
    """Let the first Ctrl-C end the load, and the second one everything."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def interrupt() -> None:
        if run.outcome.is_interrupted:
            task.cancel()
        run.interrupt()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


@contextmanager
def _view(run: "Run", *, is_json: bool) -> Iterator[tuple[Callable[["Run"], None], float]]:
    """Show the run: live on a terminal, line by line elsewhere."""
    from pyromq.cli.torture.torture_view import Lines, Screen

    stream = sys.stderr if is_json else sys.stdout
    if not stream.isatty():
        lines = Lines(run, output.note if is_json else output.say)
        yield lines.look, VIEW_S
        return
    from rich.console import Console
    from rich.live import Live

    screen = Screen(run)
    console = Console(stderr=is_json)
    with Live(screen.render(), console=console, auto_refresh=False, transient=True) as live:
        yield lambda _run: live.update(screen.render(), refresh=True), VIEW_S


@contextmanager
def _clients_log(path: Path) -> Iterator[None]:
    """Let what the clients complain of go to a file: faults are no news to whoever asked for them."""
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger()
    before, logger.handlers = logger.handlers, [handler]
    try:
        yield
    finally:
        logger.handlers = before
        handler.close()


def _draw(run: "Run", path: Path | None) -> None:
    from pyromq.torture.timeline import draw_timeline, why_no_pictures

    if path is None or not run.history.events:
        return
    if reason := why_no_pictures():
        output.note(reason)
        return
    draw_timeline(run.history, run.outcome, path)
    run.outcome.picture = path


def _clean_up(outcome: "RunOutcome", *, is_whole: bool, keeps: bool) -> None:
    """Remove what nobody needs: the servers' data of a run that kept every promise, or all of it."""
    if outcome.broken or keeps:
        return
    if is_whole:
        shutil.rmtree(outcome.folder)
        outcome.history_file = None
        return
    for path in outcome.folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def _again(seed: int) -> str:
    """Return the command that does the same again: what was typed, with this seed and for one round."""
    words: list[str] = []
    given = iter(["pyromq", *sys.argv[1:]])
    for word in given:
        if word in ("--seed", "--rounds"):
            next(given, None)
        elif not word.startswith(("--seed=", "--rounds=")):
            words.append(word)
    return shlex.join([*words, "--seed", str(seed)])
