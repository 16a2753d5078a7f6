"""`pyromq pipeline run` as a service: it runs on, is told to stop, and goes on where it was."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq import Message, Producer
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually

PYROMQ = Path(sys.executable).with_name("pyromq")
FILE = """\
name: copied
source: {nameServer: "%s", subscribe: numbers, startingOffsets: earliest, maxMessagesPerTrigger: 50}
steps:
  numbers: SELECT body, keys FROM source
sinks:
  copies: {topic: copies}
"""


def send(cluster: ThreadCluster, first: int, count: int) -> None:
    with Producer("stops", cluster.namesrv_address) as producer:
        for number in range(first, first + count):
            producer.send(Message("numbers", b"%d" % number))


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_pipeline_ends_after_its_batch_and_goes_on_where_it_was(tmp_path: Path, number: int) -> None:
    (tmp_path / "pipeline.yml").write_text("")
    told = tmp_path / "told"
    command = [PYROMQ, "pipeline", "run", tmp_path, "--json", "--create-topics", "--master", "local[2]"]
    with running_cluster(data_dir=tmp_path / "data") as cluster:
        (tmp_path / "pipeline.yml").write_text(FILE % cluster.namesrv_address)
        send(cluster, 0, 200)

        with told.open("wb") as out:
            service = subprocess.Popen(command, stdout=out)
        try:
            eventually(lambda: len(lines(told)) >= 2 or service.poll() is not None, 300, what="batches")
            service.send_signal(number)
            status = service.wait(120)
        finally:
            service.kill()
        send(cluster, 200, 10)
        again = subprocess.run([*command, "--once"], capture_output=True, text=True, timeout=300, check=False)

    first, second = lines(told), [json.loads(line) for line in again.stdout.splitlines()]
    assert (status, again.returncode) == (0, 0), again.stderr
    assert first[-1]["ended"] is True
    assert sum(line["rows"] for line in [*first[:-1], *second[:-1]]) == 210
