"""What is in deploy/ is checked, and the checks find what is wrong."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("deploy_check", ROOT / "tools" / "deploy_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


checks = load_tool()
NEEDS_SYSTEMD = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze here: apt-get install systemd"
)


@pytest.mark.parametrize("what", checks.CHECKS)
def test_it_is_well(what: str) -> None:
    if what == "systemd's units" and shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here: apt-get install systemd")
    assert checks.CHECKS[what]() == []


@NEEDS_SYSTEMD
def test_a_unit_with_a_mistake_or_without_its_walls_is_found(tmp_path: Path) -> None:
    whole = (ROOT / "deploy/systemd/pyromq-namesrv.service").read_text()
    (tmp_path / "pyromq-odd.service").write_text(whole.replace("Restart=on-failure", "Restart=maybe"))
    open_walls = whole.replace("ProtectSystem=strict", "").replace("PrivateDevices=yes", "")
    (tmp_path / "pyromq-open.service").write_text(
        open_walls.replace("CapabilityBoundingSet=\n", "").replace("PrivateUsers=yes", "")
    )

    problems = checks.check_units(tmp_path)

    assert any("restart specifier" in one for one in problems if one.startswith("pyromq-odd"))
    assert any("exposure" in one for one in problems if one.startswith("pyromq-open"))


@pytest.mark.parametrize(
    ("file", "right", "wrong", "said"),
    [
        ("30-broker-a.yaml", "replicas: 3", "replicas: three", "is not of type"),
        (
            "30-broker-a.yaml",
            "path: /health/ready, port: health",
            "path: /health/ready, port: no",
            "readinessProbe",
        ),
        ("30-broker-a.yaml", "- --advertise", "- --advertize", "broker has no --advertize"),
        ("10-config.yaml", "minInSyncReplicas=2", "minInSyncReplica=2", "minInSyncReplica"),
        ("10-config.yaml", "etcd-2.etcd.pyromq.svc:2379", "etcd-3.etcd.pyromq.svc:2379", "no pod is etcd-3"),
        ("20-namesrv.yaml", "replicas: 2", "replicas: 1", "no pod is namesrv-1"),
        (
            "15-etcd.yaml",
            "containerPort: 2379",
            "containerPort: 2389",
            "no pod is etcd-0.etcd.pyromq.svc:2379",
        ),
        ("15-etcd.yaml", "path: /health, port: metrics", "path: /health, port: no", "readinessProbe"),
    ],
)
def test_a_manifest_with_a_mistake_is_found(
    tmp_path: Path, file: str, right: str, wrong: str, said: str
) -> None:
    folder = shutil.copytree(ROOT / "deploy/kubernetes", tmp_path / "kubernetes")
    text = (folder / file).read_text()
    assert right in text
    (folder / file).write_text(text.replace(right, wrong))
    assert any(said in problem for problem in checks.check_manifests(folder))


def test_an_etcd_that_cannot_decide_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "ETCD_S_MAX", 5)
    folder = shutil.copytree(ROOT / "deploy/kubernetes", tmp_path / "kubernetes")
    path = folder / "15-etcd.yaml"
    path.write_text(path.read_text().replace("etcd-1=http", "etcd-one=http"))
    assert any(one.startswith("etcd-1 does not become ready") for one in checks.check_etcd(folder))


def test_a_compose_file_with_a_mistake_is_found(tmp_path: Path) -> None:
    text = (ROOT / "deploy/docker/compose.yml").read_text()
    path = tmp_path / "compose.yml"
    path.write_text(
        text.replace("PYROMQ_BROKER_NAME", "PYROMQ_BROKER_NAMES").replace("[namesrv]", "[nameserver]")
    )

    problems = checks.check_compose(path)

    assert any("PYROMQ_BROKER_NAMES is no setting" in one for one in problems)
    assert any("nameserver is no command" in one for one in problems)
