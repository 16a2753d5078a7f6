"""A run of `pyromq torture` while it goes on: a screen, or lines where there is no terminal."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyromq.torture.history import HistoryEvent
from pyromq.torture.nemesis import BEGIN, END
from pyromq.torture.pauses import SEND_OK, Pauses
from pyromq.torture.promise_model import Model
from pyromq.torture.stage import Topology
from pyromq.torture.torture_run import Phase, Run

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pyromq.torture.servers.nodes import ServerNode

#: Seconds between two lines where there is no terminal.
_LINE_S = 10.0
#: Faults that the screen remembers.
_PAST_MAX = 6
#: What readers are owed is counted again after so many times of what counting took.
_COUNT_FACTOR = 20.0


class HistoryTally:
    """The running counts of a history."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._model = Model(run.order.plan.promises)
        self._counted_at_s = self._took_s = 0.0
        self._seen = 0
        self.acknowledged = self.delivered = self.failed = self.faults = self.owed = 0
        self.pauses = Pauses()
        #: The youngest faults, whether they are over or not.
        self.past: list[HistoryEvent] = []

    def look(self) -> None:
        """Take in what happened since the last look."""
        events = self._run.history.events
        for event in events[self._seen :]:
            self.pauses.see(event)
            if event.kind == "ack":
                self.acknowledged += event.fields.get("status") == SEND_OK
            elif event.kind == "deliver":
                self.delivered += 1
            elif event.kind == "fail":
                self.failed += 1
            elif event.kind == BEGIN:
                self.faults += 1
                self.past = [*self.past[-_PAST_MAX + 1 :], event]
        self._seen = len(events)
        now_s = self._run.now_s()
        if now_s - self._counted_at_s >= max(1.0, _COUNT_FACTOR * self._took_s):
            self._model.see_all(events)
            self.owed = len(self._model.missing())
            self._counted_at_s = self._run.now_s()
            self._took_s = self._counted_at_s - now_s

    def promises(self) -> str:
        """Return in a line how the promises stand; the whole check comes at the end."""
        cluster = self._run.cluster
        ended = 0 if cluster is None else len(cluster.complaints())
        return (
            f"{self.acknowledged:,} acknowledged, {self.owed:,} deliveries still owed, "
            f"{ended} servers ended by themselves"
        )


def _role(run: Run, node: "ServerNode") -> str:
    if run.cluster is None:
        return ""
    if run.order.plan.promises.topology is Topology.ALONE:
        return "master"
    return "master" if run.cluster.is_master(node) else "slave"


def _state(node: "ServerNode") -> tuple[str, str]:
    """Return how a node is, and the colour of that."""
    if not node.is_up:
        return "down", "red"
    if node.is_stopped:
        return "stands still", "yellow"
    return ("serves", "green") if node.is_ready else ("starts", "yellow")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    return f"{minutes}:{rest:02d}"


class Screen:
    """The live view."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._tally = HistoryTally(run)

    def render(self) -> "RenderableType":
        """Return the screen as it is now."""
        from rich.console import Group

        self._tally.look()
        return Group(self._head(), self._nodes(), self._figures())

    def _head(self) -> "RenderableType":
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        run = self._run
        title = Text.assemble(
            (" pyromq torture ", "reverse bold"),
            f"  {run.outcome.cluster}   ",
            ("seed ", "dim"),
            str(run.order.seed),
        )
        if run.loaded_at_s is None:
            return Group(title, Text(f"{run.phase} … {_clock(run.now_s())}", "cyan"))
        done_s = min(run.now_s() - run.loaded_at_s, run.order.seconds)
        is_loaded = run.phase is Phase.RUNNING
        left = (
            f", {_clock(run.order.seconds - done_s)} left" if is_loaded else f", {_clock(run.now_s())} in all"
        )
        text = Text.assemble((str(run.phase), "cyan"), f"   {_clock(done_s)} of load{left}")
        if run.outcome.is_interrupted:
            text.append("   interrupted: once more ends it at once", "yellow")
        return Group(title, text, ProgressBar(run.order.seconds, done_s, width=72), Text())

    def _nodes(self) -> "RenderableType":
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        table = Table(box=SIMPLE_HEAD, padding=(0, 2, 0, 0))
        for heading in ("SERVER", "ROLE", "STATE", "STARTS", "FAULTS NOW"):
            table.add_column(heading, justify="right" if heading == "STARTS" else "left")
        cluster = self._run.cluster
        if cluster is None:
            return table
        under_way = {} if self._run.nemesis is None else self._run.nemesis.under_way
        now: dict[str, list[str]] = {}
        for fault, victim in under_way.items():
            now.setdefault(victim, []).append(str(fault.kind))
        for node in (*cluster.nodes, *cluster.name_servers):
            state, colour = _state(node)
            faults = [*now.get(node.title, ()), *(now.get("all brokers", ()) if node.group else ())]
            role = _role(self._run, node) if node.group else "name server"
            style = "bold" if role == "master" else ""
            table.add_row(
                f"[{style}]{node.title}[/]" if style else node.title,
                role,
                f"[{colour}]{state}[/]",
                str(node.starts),
                f"[red]{', '.join(faults)}[/]" if faults else "",
            )
        if cluster.etcd is not None:
            etcd = "[green]serves[/]" if cluster.etcd.is_up else "[red]down[/]"
            table.add_row("etcd", "decides", etcd, "", f"[red]{', '.join(now.get('etcd', ()))}[/]")
        return table

    def _figures(self) -> "RenderableType":
        from rich.table import Table
        from rich.text import Text

        tally = self._tally
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim")
        grid.add_column()
        grid.add_row(
            "messages",
            f"[green]{tally.acknowledged:,}[/] acknowledged, [cyan]{tally.delivered:,}[/] delivered, "
            f"{tally.failed:,} sends without an answer",
        )
        grid.add_row(
            "longest pause",
            f"{tally.pauses.producer.seconds:.1f} s for a producer, "
            f"{tally.pauses.consumer.seconds:.1f} s for a consumer",
        )
        grid.add_row("promises so far", tally.promises())
        past = ", ".join(f"{event.fields['fault']} ({event.actor})" for event in tally.past[-4:])
        grid.add_row("faults", Text(f"{tally.faults:,}; the last: {past or 'none yet'}"))
        return grid


class Lines:
    """The same where there is no terminal: each fault and each change of masters, and how it stands."""

    def __init__(self, run: Run, say: Callable[[str], None]) -> None:
        self._run = run
        self._say = say
        self._tally = HistoryTally(run)
        self._phase: Phase | None = None
        self._said_at_s = 0.0
        run.history.on_event = self._tell

    def look(self, run: Run) -> None:
        """Say how it stands, when that is another thing, or when nothing was said for a while."""
        self._tally.look()
        if run.phase is not self._phase:
            self._phase, self._said_at_s = run.phase, run.now_s()
            self._say(f"{_clock(run.now_s())} {run.phase}")
        if run.phase in (Phase.RUNNING, Phase.HEALING) and run.now_s() - self._said_at_s >= _LINE_S:
            self._said_at_s = run.now_s()
            self._say(f"{_clock(run.now_s())} {self._tally.promises()}; {self._tally.delivered:,} delivered")

    def _tell(self, event: HistoryEvent) -> None:
        now = _clock(event.at_s)
        if event.kind == BEGIN:
            self._say(f"{now} {event.fields['fault']}: {event.actor}, for {event.fields['lasts_s']} s")
        elif event.kind == END:
            self._say(f"{now} {event.fields['fault']}: {event.actor}: over")
        elif event.kind == "master":
            self._say(
                f"{now} {event.actor} is master of {event.fields['group']}, epoch {event.fields['epoch']}"
            )
        elif event.kind == "healed":
            self._say(f"{now} all faults are healed")
