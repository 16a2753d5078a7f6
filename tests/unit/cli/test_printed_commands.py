"""The program understands every command that it prints: in findings, errors, greetings, help and pages."""

import re

import pytest
from command_line import complaint
from printed_commands import Filling, Printed, printed_commands

#: What a part of a text may be when it is printed, by names in its source; the first that is there counts.
VALUES = {
    "survey.at": " -n 127.0.0.1:9876",
    "said_settings": "",
    "place_of": "broker-a:0",
    "order.folder.uri": "/archive",
    "config.order": "",
    "topic.order": "",
    "where": " --cluster DefaultCluster",
    "is_loopback": "",
    "name_server": "127.0.0.1:9876",
    "name_servers": "127.0.0.1:9876",
    "address": "127.0.0.1:10911",
    "_near": "127.0.0.1:9876",
    "told": "127.0.0.1:9876",
    "kind": "topic",
    "only": "",
    **dict.fromkeys(
        (
            *("queue_count", "count", "on_each", "retries", "fewer", "queues", "offset", "head", "port"),
            *("read_queue_nums", "write_queue_nums", "perm"),
        ),
        "3",
    ),
    "Kind.STREAMING": "",
}
#: Texts that begin with the program's name and are no command: titles of pages, pictures and tables.
TITLES = re.compile(
    r"pyromq(?: job (?:archive|verify|replay|mirror)$| torture(?: $|:)| store verify finds"
    r"| in your data folder| admin switchMaster$| \x01\{installed_version)"
)
#: Words in capitals for what only the reader knows, and an example of it.
TO_FILL_IN = {"HOST:PORT": "127.0.0.1:10911", "PYROMQ_NEW_SECRET_KEY": ""}

COMMANDS = [one for one in printed_commands() if not TITLES.match(one.command)]


def test_commands_are_found_in_all_places_that_print_them() -> None:
    places = {one.place.split(":")[0].rsplit("/", 1)[0] for one in COMMANDS}
    assert {
        *("pyromq/cli", "pyromq/cli/admin", "pyromq/doctor/checks", "pyromq/dashboard"),
        *("pyromq/dashboard/static", "pyromq/client/plans", "pyspark_rocketmq/pipelines"),
    } <= places
    assert len(COMMANDS) > 300


@pytest.mark.parametrize("printed", COMMANDS, ids=lambda one: f"{one.place} {one.command[:40]!a}")
def test_a_printed_command_is_understood_as_it_stands(
    printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYROMQ_NEW_SECRET_KEY", "the variable that an example sets")
    command = printed.filled(Filling(VALUES, "orders"))
    for word, example in TO_FILL_IN.items():
        command = command.replace(word, example)

    assert printed.is_marked, f"where does the command end? put it into backticks: {command}"
    assert complaint(command) is None, command
