"""RocketMQ's own strategies and offsets file beside ours: the same shares, and one file for both."""

import json
import subprocess
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.toolchains import Unavailable, java_class
from java_allocations import our_shares

from pyromq.client.consumer.broadcast_offsets import BroadcastOffsets
from pyromq.model import MessageQueue

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

SEEDS = (1, 2026)
GROUPS = 400
CLIENT = "10.0.0.7@DEFAULT"


def output_of(name: str, *words: object, options: tuple[str, ...] = ()) -> list[str]:
    """Run a small Java program on the 4.9.8 client, and return the lines it prints."""
    try:
        command = java_class(name, "4.9.8", options)
    except Unavailable as error:
        unavailable(error)
    ended = subprocess.run(
        [*command, *map(str, words)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.row("RB-07", "RB-08", "RB-09", "RB-10", "RB-11")
@pytest.mark.parametrize("seed", SEEDS)
def test_every_strategy_gives_every_member_what_rocketmq_gives_it(seed: int) -> None:
    cases = [json.loads(line) for line in output_of("Allocations", seed, GROUPS) if line.startswith("{")]

    assert len(cases) == GROUPS
    for case in cases:
        assert our_shares(case) == case["shares"]


@pytest.mark.row("OF-02")
def test_java_and_we_read_each_others_broadcast_offsets(tmp_path: Path) -> None:
    folder = (f"-Drocketmq.client.localOffsetStoreDir={tmp_path}", f"-Duser.home={tmp_path}")
    ours = BroadcastOffsets(tmp_path, CLIENT, "group")
    queues = [MessageQueue("orders", "broker-a", number) for number in range(3)]
    kept = ["orders", "broker-a", "0=17", "orders", "broker-a", "1=4"]

    output_of("LocalOffsets", CLIENT, "group", *kept, options=folder)
    assert ours.load() == {queues[0]: 17, queues[1]: 4}

    ours.save({queues[1]: 5, queues[2]: 9})
    asked = ["orders", "broker-a", "0", "orders", "broker-a", "1", "orders", "broker-a", "2"]
    assert output_of("LocalOffsets", CLIENT, "group", *asked, options=folder)[-3:] == ["17", "5", "9"]


@pytest.mark.row("OF-02")
def test_the_offsets_file_is_the_one_that_java_writes(tmp_path: Path) -> None:
    folder = (f"-Drocketmq.client.localOffsetStoreDir={tmp_path}", f"-Duser.home={tmp_path}")
    queue = MessageQueue("orders", "broker-a", 3)

    output_of("LocalOffsets", CLIENT, "java", "orders", "broker-a", "3=17", options=folder)
    BroadcastOffsets(tmp_path, CLIENT, "python").save({queue: 17})

    paths = [tmp_path / CLIENT / group / "offsets.json" for group in ("java", "python")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
