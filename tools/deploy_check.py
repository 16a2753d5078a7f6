"""Check what is in deploy/ as far as it can be without a cluster: units, manifests, settings, commands.

    python tools/deploy_check.py

systemd verifies the units and says how exposed they are; manifests are held against Kubernetes' own schemas
(kubernetes-validate has them, nothing is fetched); settings and commands are read as `pyromq` reads them; the
etcd of the manifests is started, all members, with their variables and addresses of 127.0.0.1.
What a machine has not (systemd-analyze, etcd) is told, and is a failure with CI=true.
"""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
DEPLOY: Final = ROOT / "deploy"
PYROMQ: Final = Path(sys.executable).with_name("pyromq")
#: systemd's measure goes from 0 to 10, and below 2.0 it says OK.
EXPOSURE_MAX: Final = 1.9
#: Seconds until a member of etcd is ready.
ETCD_S_MAX: Final = 30
#: Where the units have the program.
INSTALLED: Final = "/opt/pyromq/bin/pyromq"

sys.path[:0] = [str(ROOT / "tests" / part) for part in ("support", "interop")]


class NotHereError(Exception):
    """A program that a check needs is not on this machine."""


def check_units(folder: Path = DEPLOY / "systemd") -> list[str]:
    """Return what systemd finds wrong with the units, and those that are too exposed."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        raise NotHereError("systemd-analyze is not here: apt-get install systemd")
    problems = []
    with TemporaryDirectory() as name:
        for path in sorted(folder.glob("*.service")):
            # What they run and where is not on this machine; templates are verified as an instance.
            unit = Path(name) / path.name.replace("@.", "@a.")
            text = path.read_text().replace(INSTALLED, "/bin/true")
            unit.write_text(re.sub(r"(?m)^WorkingDirectory=.*$", "WorkingDirectory=/", text))
            said = _run([analyze, "verify", "--man=no", str(unit)])
            problems += [f"{path.name}: {line}" for line in said.splitlines() if path.stem[:-1] in line]
            said = _run([analyze, "security", "--offline=true", str(unit)])
            found = re.search(r"exposure level for \S+: ([\d.]+)", said)
            if found is None or float(found[1]) > EXPOSURE_MAX:
                problems.append(
                    f"{path.name}: exposure {found[1] if found else said}, {EXPOSURE_MAX} at most"
                )
    return problems


def check_commands_of_units(folder: Path = DEPLOY / "systemd") -> list[str]:
    """Return the units whose command `pyromq` does not have."""
    problems = []
    for path in sorted(folder.glob("*.service")):
        [command] = re.findall(rf"(?m)^ExecStart={INSTALLED} (.*)$", path.read_text())
        problems += _unknown_options(path.name, command.split())
    return problems


def check_manifests(folder: Path = DEPLOY / "kubernetes") -> list[str]:
    """Return what Kubernetes' schemas find wrong, settings that do not read, and probes of no port."""
    from kubernetes_validate import ValidationError, latest_version, validate

    problems = []
    for path, document in manifests(folder):
        try:
            validate(document, latest_version(), strict=True)
        except ValidationError as error:
            problems.append(f"{path.name}: {error.message}")
        if document["kind"] == "ConfigMap":
            problems += _settings_problems(path, document["data"])
        if document["kind"] == "StatefulSet":
            problems += _pod_problems(path, document["spec"])
    # Addresses follow from numbers and names: they are looked at when those are right.
    return problems or _address_problems([document for _, document in manifests(folder)])


def manifests(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Give each document of the manifests; kustomization.yaml must list their files."""
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    for name in listed:
        for document in yaml.safe_load_all((folder / name).read_text()):
            yield folder / name, document


def _settings_problems(path: Path, files: dict[str, str]) -> list[str]:
    problems = []
    with TemporaryDirectory() as name:
        for file, text in files.items():
            (Path(name) / file).write_text(text)
            said = _run([PYROMQ, file.removesuffix(".conf"), "-c", f"{name}/{file}", "--print-settings"])
            problems += [f"{path.name}: {file}: {line}" for line in said.splitlines() if "pyromq:" in line]
    return problems


def _address_problems(documents: Sequence[dict[str, Any]]) -> list[str]:
    """Return the addresses of the settings that are no pods of the manifests, or no port that these open."""
    pods = set()
    for spec in (document["spec"] for document in documents if document["kind"] == "StatefulSet"):
        ports = [port for one in spec["template"]["spec"]["containers"] for port in one["ports"]]
        for number, port in itertools.product(range(spec["replicas"]), ports):
            name = spec["serviceName"]
            pods.add(f"{name}-{number}.{name}.pyromq.svc:{port['containerPort']}")
    told = "\n".join(text for one in documents if one["kind"] == "ConfigMap" for text in one["data"].values())
    return [
        f"no pod is {address}"
        for address in re.findall(r"[\w-]+\.[\w-]+\.pyromq\.svc:\d+", told)
        if address not in pods
    ]


def _pod_problems(path: Path, spec: dict[str, Any]) -> list[str]:
    problems = []
    if spec["selector"]["matchLabels"] != spec["template"]["metadata"]["labels"]:
        problems.append(f"{path.name}: the selector is not the pods' labels")
    for container in spec["template"]["spec"]["containers"]:
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[probe]["httpGet"]
            is_ours = container["image"].startswith("pyromq:")
            page = "/health/" if is_ours else "/health"
            if asked["port"] not in ports or not asked["path"].startswith(page):
                problems.append(f"{path.name}: {probe} asks {asked}")
        if is_ours:
            problems += _unknown_options(path.name, container["args"])
    return problems


def check_etcd(folder: Path = DEPLOY / "kubernetes") -> list[str]:
    """Start the etcd of the manifests, each member on 127.0.0.1; return what keeps it from deciding."""
    from etcd import program

    program_path = _found(program)
    for _, document in manifests(folder):
        if document["kind"] == "StatefulSet" and document["metadata"]["name"] == "etcd":
            [container] = document["spec"]["template"]["spec"]["containers"]
            variables = {one["name"]: one.get("value") for one in container["env"]}
            with TemporaryDirectory() as name, ExitStack() as closing:
                members = [
                    EtcdMember(number, variables, Path(name))
                    for number in range(document["spec"]["replicas"])
                ]
                for member in members:
                    closing.enter_context(member.running(program_path))
                return [problem for member in members if (problem := member.problem())]
    return []


def _found(program: Callable[[], str]) -> str:
    # The fixture fails a test; here it is a check that was not made.
    from _pytest.outcomes import OutcomeException

    try:
        return program()
    except OutcomeException as error:
        raise NotHereError(str(error)) from error


class EtcdMember:
    """One member, with the variables that Kubernetes would give it, and other addresses."""

    def __init__(self, number: int, variables: dict[str, str | None], folder: Path) -> None:
        self.name = f"etcd-{number}"
        self._log = folder / f"{self.name}.log"
        self._environment = {}
        for variable, value in variables.items():
            # Only the name is Kubernetes' to say.
            said = self.name if value is None else value.replace("$(ETCD_NAME)", self.name)
            said = re.sub(r"http://0\.0\.0\.0:", f"http://{self.name}.etcd.pyromq.svc:", said)
            said = re.sub(r"etcd-(\d+)\.etcd\.pyromq\.svc:(\d+)", _address_here, said)
            self._environment[variable] = said
        self._environment["ETCD_DATA_DIR"] = str(folder / self.name)

    @contextmanager
    def running(self, program: str) -> Iterator[None]:
        """Run it for the block."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [program], env=kept | self._environment, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)

    def problem(self) -> str | None:
        """Wait until its readiness page is well; return what it says if that takes too long."""
        page = f"{self._environment['ETCD_LISTEN_METRICS_URLS']}/health"
        deadline = time.monotonic() + ETCD_S_MAX
        while time.monotonic() < deadline:
            with suppress(OSError), urllib.request.urlopen(page, timeout=5) as answer:
                if json.load(answer)["health"] == "true":
                    return None
            time.sleep(0.2)
        return f"{self.name} does not become ready:\n{self._log.read_text()[-1_000:]}"


@cache
def _port(member: str, port: str) -> int:
    from harness.ports import free_broker_port

    return free_broker_port()


def _address_here(found: "re.Match[str]") -> str:
    return f"127.0.0.1:{_port(*found.groups())}"


def check_compose(path: Path = DEPLOY / "docker" / "compose.yml") -> list[str]:
    """Return the services whose command, settings or volumes are not there."""
    composed = yaml.safe_load(path.read_text())
    problems = []
    for name, service in composed["services"].items():
        problems += _unknown_options(f"{path.name}: {name}", service["command"])
        problems += _unknown_variables(f"{path.name}: {name}", service.get("environment", {}))
        for volume in service.get("volumes", ()):
            if volume.partition(":")[0] not in composed["volumes"]:
                problems.append(f"{path.name}: {name}: {volume} is no volume")
    image = (DEPLOY / "docker" / "Dockerfile").read_text()
    said = dict.fromkeys(re.findall(r"(?m)^\s*(?:ENV )?(PYROMQ_\w+)=", image))
    return problems + _unknown_variables("Dockerfile", said)


def _unknown_options(where: str, words: Iterable[str]) -> list[str]:
    """Return the options of a command that its help does not have."""
    command, *rest = words
    usage = _usage(command)
    options = [word for word in rest if re.fullmatch(r"--?[a-z][a-z-]*", word)]
    if f"Usage: pyromq {command} " not in usage:
        return [f"{where}: {command} is no command"]
    return [f"{where}: {command} has no {option}" for option in options if f"{option} " not in usage]


@cache
def _usage(command: str) -> str:
    return _run([PYROMQ, command, "--help"], COLUMNS="200", NO_COLOR="1")


def _unknown_variables(where: str, variables: Iterable[str]) -> list[str]:
    from pyromq.config.setting_names import OUR_NAMES

    known = {f"PYROMQ_{name.upper()}" for name in OUR_NAMES} | {"PYROMQ_DASHBOARD_PASSWORD"}
    return [f"{where}: {one} is no setting" for one in variables if one not in known]


def _run(command: list[Any], **environment: str) -> str:
    ended = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | environment,
    )
    return ended.stdout + ended.stderr


CHECKS: Final[dict[str, Callable[[], list[str]]]] = {
    "systemd's units": check_units,
    "their commands": check_commands_of_units,
    "Kubernetes' manifests": check_manifests,
    "their etcd": check_etcd,
    "compose.yml and Dockerfile": check_compose,
}


def main() -> int:
    """Run all checks."""
    failed = False
    for what, check in CHECKS.items():
        try:
            problems = check()
        except NotHereError as error:
            print(f"{what}: not checked, {error}")
            failed |= os.environ.get("CI") == "true"
            continue
        print(f"{what}: {'well' if not problems else 'wrong'}")
        for problem in problems:
            print(f"  {problem}")
        failed |= bool(problems)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
