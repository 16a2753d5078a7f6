"""The set-up of `pyromq torture`: the options made into a run with its cluster, faults and load."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import SystemRandom

from pyromq.cli import output
from pyromq.errors import ConfigError
from pyromq.torture import faults
from pyromq.torture.cluster_plan import Plan
from pyromq.torture.fault_schedule import draw
from pyromq.torture.probe.probe import ProbePlan
from pyromq.torture.run_outcome import RunOutcome
from pyromq.torture.servers import etcd_process, process_clock
from pyromq.torture.servers.network_namespaces import why_no_namespaces
from pyromq.torture.stage import Promises, Topology
from pyromq.torture.torture_run import Order
from pyromq.torture.variation import Variation, draw_variation
from pyromq.torture.workload import ACCOUNTS, BROKER_SETTINGS, WorkloadKind, WorkloadPlan, accounts_file

NONE = "none"
#: What a disk of a broker's own holds: twice the log of a minute (38 MB were measured), and a beginning.
_DISK_BYTES, _DISK_BYTES_A_MINUTE = 192 << 20, 96 << 20
#: The workload's account that may do everything, for the commands of an operator.
_OPERATOR = "operator"
#: Links of the kernel's can be cut, and nothing else.
_IN_NAMESPACES = frozenset({"delay", "chop", "tear", "refuse"})


@dataclass(frozen=True, kw_only=True)
class TortureOrder:
    """The options of the command."""

    minutes: float = 2.0
    brokers: int = 1
    replicas: int = 1
    is_sync_flush: bool = False
    is_sync_master: bool = False
    etcd: str = "auto"
    has_access_control: bool = False
    has_namespaces: bool = False
    assignments: tuple[str, ...] = ()
    faults: str | None = None
    seed: int | None = None
    only: str | None = None
    pace: float = 4.0
    is_varied: bool = False
    keeps_data: bool = False

    @property
    def etcd_program(self) -> str | None:
        """The etcd that is to be used, if it is needed."""
        program = etcd_process.find_program(self.etcd) if self.replicas > 1 else None
        if program is None and self.replicas > 1 and self.etcd not in ("auto", NONE):
            raise ConfigError(f"--etcd: there is no program {self.etcd}; {etcd_process.HOW_TO_GET_IT}")
        return program

    def promises(self) -> Promises:
        """Return what will hold."""
        topology = Topology.ALONE
        if self.replicas > 1:
            topology = Topology.MASTER_SLAVE if self.etcd_program is None else Topology.FAILOVER
        return Promises(
            topology=topology,
            groups=self.brokers,
            replicas=self.replicas,
            is_sync_flush=self.is_sync_flush,
            is_sync_master=self.is_sync_master,
            has_access_control=self.has_access_control,
        )


def seeded(asked: TortureOrder, rounds: int) -> Iterator[TortureOrder]:
    """Yield the same with a seed, and then with those that follow it."""
    first = SystemRandom().randrange(1 << 32) if asked.seed is None else asked.seed
    return (replace(asked, seed=first + number) for number in range(rounds))


def prepare(asked: TortureOrder) -> tuple[Order, RunOutcome]:
    """Return what is to be run, and where its outcome goes; raises ConfigError when it cannot be."""
    assert asked.seed is not None
    promises = asked.promises()
    names, left_out = _faults(asked, promises)
    if asked.has_namespaces and (reason := why_no_namespaces()):
        raise ConfigError(f"--namespaces: {reason}")
    variation = draw_variation(asked.seed) if asked.is_varied else None
    settings = _settings(asked, variation)
    without = faults.PROXY_KINDS if asked.has_namespaces else frozenset()
    weights = faults.kinds_of(names, promises, without)
    plan = Plan(
        promises=promises,
        name_servers=1 if promises.replicas == 1 else 2,
        settings=settings,
        etcd=asked.etcd_program,
        has_disks=not faults.DISK_KINDS.isdisjoint(weights),
        disk_bytes=_DISK_BYTES + int(_DISK_BYTES_A_MINUTE * asked.minutes * max(1.0, asked.pace / 4)),
        clock_library=process_clock.find_library() if "clock-jump" in names else None,
        has_namespaces=asked.has_namespaces,
        accounts=ACCOUNTS,
        access_file=accounts_file() if asked.has_access_control else "",
    )
    order = Order(
        plan=plan,
        seed=asked.seed,
        seconds=asked.minutes * 60,
        schedule=tuple(draw(asked.seed, weights, asked.minutes * 60, plan.lease_s)),
        workload=WorkloadPlan.of(*_kinds(asked), pace=asked.pace),
        probe=ProbePlan(producers=3, pause_s=2.0 / asked.pace),
        distance_s=0.0 if variation is None or asked.has_namespaces else variation.distance_s,
        keeps_data=asked.keeps_data,
    )
    return order, RunOutcome(asked.seed, describe(promises), families=names, left_out=left_out)


def _settings(asked: TortureOrder, variation: Variation | None) -> dict[str, object]:
    """Return the brokers' settings: the workload's, those that are drawn, and what was asked for."""
    settings: dict[str, object] = dict(BROKER_SETTINGS)
    if variation is not None:
        # How it is flushed is for the command to say.
        settings |= {name: value for name, value in variation.settings.items() if name != "flushDiskType"}
        settings["minInSyncReplicas"] = min(int(str(settings["minInSyncReplicas"])), asked.replicas)
    if asked.has_access_control:
        settings |= _access_settings()
    return settings | _assigned(asked.assignments)


def _faults(asked: TortureOrder, promises: Promises) -> tuple[list[str], dict[str, str]]:
    """Return the families that are done, and those that were meant and cannot be, with the reason."""
    reasons = dict(faults.impossible(promises, clock_library=process_clock.find_library()))
    if asked.has_namespaces:
        reasons |= dict.fromkeys(_IN_NAMESPACES, "with --namespaces links are cut, and nothing else")
    if asked.faults is None:
        wanted = faults.usual_names()
    else:
        wanted = [] if asked.faults == NONE else faults.read_names(asked.faults)
    names = [name for name in wanted if name not in reasons]
    left_out = {name: reasons[name] for name in wanted if name in reasons}
    if promises.topology is Topology.MASTER_SLAVE:
        left_out["failover"] = (
            "--etcd none: the first broker of each group stays its master"
            if asked.etcd == NONE
            else f"there is no etcd on the PATH, so the first broker of each group stays its master: "
            f"{etcd_process.HOW_TO_GET_IT}"
        )
    return names, left_out


def _kinds(asked: TortureOrder) -> list[WorkloadKind]:
    if asked.only is None:
        without = {WorkloadKind.LARGE} if asked.is_varied else set()
        if not asked.has_access_control:
            without.add(WorkloadKind.STRANGERS)
        return [kind for kind in WorkloadKind if kind not in without]
    kinds = []
    for name in filter(None, (word.strip() for word in asked.only.split(","))):
        if name not in [str(kind) for kind in WorkloadKind]:
            raise ConfigError(f"--only: {name!r} is no kind of message; there are {', '.join(WorkloadKind)}")
        kinds.append(WorkloadKind(name))
    return kinds


def _assigned(assignments: tuple[str, ...]) -> dict[str, object]:
    settings: dict[str, object] = {}
    for text in assignments:
        name, is_assigned, value = text.partition("=")
        if not is_assigned:
            raise ConfigError(f"--set {text}: expected KEY=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def _access_settings() -> Mapping[str, object]:
    operator = ACCOUNTS[_OPERATOR]
    keys = {"accessKey": operator.access_key, "secretKey": operator.secret_key}
    return {
        "aclEnable": "true",
        "haAllowedAddresses": "127.0.0.1",
        "innerClientAuthenticationCredentials": json.dumps(keys, separators=(",", ":")),
    }


def describe(promises: Promises) -> str:
    """Return a cluster in a line."""
    brokers = "1 broker" if promises.groups == 1 else f"{promises.groups} brokers"
    parts = [brokers]
    if promises.replicas > 1:
        kind = "failover" if promises.topology is Topology.FAILOVER else "no failover"
        parts += [f"{promises.replicas} replicas each", kind]
        parts.append("SYNC_MASTER" if promises.is_sync_master else "ASYNC_MASTER")
    parts.append("SYNC_FLUSH" if promises.is_sync_flush else "ASYNC_FLUSH")
    if promises.has_access_control:
        parts.append("access control")
    return ", ".join(parts)


def new_folder(data: Path | None, seed: int) -> Path:
    """Return a new folder for a run."""
    if data is None:
        return Path(tempfile.mkdtemp(prefix="pyromq-torture-"))
    for number in range(1, 10_000):
        folder = data.absolute() / (f"seed-{seed}" if number == 1 else f"seed-{seed}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise ConfigError(f"--data {data}: there are 9,999 runs of seed {seed} already")


def say_faults(asked: TortureOrder, *, is_json: bool) -> None:
    """Show the faults, and which of them can be done here."""
    promises = asked.promises()
    reasons = faults.impossible(promises, clock_library=process_clock.find_library())
    if is_json:
        for name, family in faults.FAMILIES.items():
            output.say_json({"fault": name, "what": family.what, "leftOut": reasons.get(name)})
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title=f"Faults for {describe(promises)}", title_justify="left")
    for heading in ("FAULT", "WHAT IS DONE", "HERE"):
        table.add_column(heading, overflow="fold")
    for name, family in faults.FAMILIES.items():
        here = "[green]yes[/]" if name not in reasons else f"[yellow]no:[/] {reasons[name]}"
        table.add_row(f"{name}{' *' if family.is_usual else ''}", family.what, here)
    console = Console()
    console.print(table)
    console.print("* without --faults, those that can be done here", style="dim")
