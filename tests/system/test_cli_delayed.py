import json
from typing import Any

import pytest

pytestmark = pytest.mark.row("DE-10")


def test_a_message_waits_is_listed_and_recalled_from_a_shell(shell: Any, shared_address: str) -> None:
    options = ("-n", shared_address, "--json")
    sent = json.loads(shell.output_of("produce", "cli-delayed", "soon", "--delay", "1h", *options))

    within = ("--from", "+59m", "--to", "+2h")
    listed = json.loads(shell.output_of("delayed", "list", "cli-delayed", *within, *options))
    told = shell.output_of("delayed", "recall", "-", "--yes", *options, stdin=listed["recall_handle"])
    gone = shell.run("delayed", "show", sent["message_id"], *options)

    assert (listed["body"], listed["recall_handle"]) == ("soon", sent["recall_handle"])
    assert json.loads(told)["recalled"] is True
    assert gone.returncode == 3
    assert "delivered or recalled" in gone.stderr


def test_a_time_that_is_none_is_a_misuse(shell: Any) -> None:
    ended = shell.run("produce", "t", "x", "--at", "noon")

    assert ended.returncode == 2
    assert "--at noon" in ended.stderr
