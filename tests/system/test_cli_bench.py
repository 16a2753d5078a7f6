import json
from typing import Any

import pytest

from pyromq import Admin
from pyromq.model import MessageQueue
from pyromq.testing.waiting import eventually


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


def stored(address: str, topic: str) -> int:
    with Admin(address) as admin:
        return sum(
            admin.max_offset(MessageQueue(topic, part.broker_name, queue_id))
            for part in admin.route(topic).queue_datas
            for queue_id in range(part.write_queue_nums)
        )


def bench(shell: Any, address: str, *arguments: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(shell.output_of("bench", *arguments, "-n", address, "--json"))
    return record


def test_what_produce_counts_is_what_the_broker_stored(shell: Any, address: str) -> None:
    options = ("-c", "4", "-w", "8", "-p", "2", "-d", "1", "--warm-up", "0.2")

    record = bench(shell, address, "produce", "-t", "timed", *options)

    assert record["messages_in_all"] == stored(address, "timed")
    assert 0 < record["messages"] <= record["messages_in_all"]
    assert not record["refused"]


def test_a_count_in_batches_is_sent_exactly(shell: Any, address: str) -> None:
    record = bench(shell, address, "produce", "-t", "counted", "-b", "10", "--count", "2000", "-s", "50")

    assert record["messages"] == record["messages_in_all"] == 2_000
    assert stored(address, "counted") == 2_000


def test_consume_reads_each_message_once(shell: Any, address: str) -> None:
    bench(shell, address, "produce", "-t", "read", "--count", "3000", "-s", "50")

    record = bench(shell, address, "consume", "-t", "read", "-c", "3", "-w", "2", "-d", "30")

    assert record["messages"] == 3_000


def test_every_message_of_a_round_trip_arrives(shell: Any, address: str) -> None:
    record = bench(shell, address, "roundtrip", "-t", "trip", "--rate", "300", "--count", "200", "-p", "2")

    assert record["messages_in_all"] == record["delivered_in_all"] == 200
    assert record["delivery_us"]["max"] >= record["delivery_us"]["p50"] > 0


def test_every_delayed_message_arrives_and_none_long_before_its_time(shell: Any, address: str) -> None:
    record = bench(shell, address, "delay", "-t", "later", "--rate", "300", "--count", "200")

    assert record["messages_in_all"] == record["delivered_in_all"] == 200
    # A broker counts in whole milliseconds from when it stored the message.
    assert record["early_us"] < 2_000


def test_each_transaction_makes_one_message(shell: Any, address: str) -> None:
    record = bench(shell, address, "transactions", "-t", "paid", "-c", "3", "-w", "4", "--count", "500")

    assert record["messages"] == stored(address, "paid") == 500
    assert not record["refused"]


def test_each_message_sent_back_comes_again(shell: Any, address: str) -> None:
    bench(shell, address, "produce", "-t", "again", "--count", "100", "-s", "50")

    record = bench(shell, address, "send-back", "-t", "again", "--count", "300")

    assert record["messages"] == 300
    eventually(lambda: stored(address, "%RETRY%pyromq-bench") == 300, what="all are in the retry topic")


def test_binary_headers_keys_and_idle_clients_change_nothing_of_what_is_stored(shell: Any, up: Any) -> None:
    ready = up().ready()
    shape = ("-c", "4", "-w", "3", "-q", "3", "--keys", "--binary", "--idle", "25", "--count", "600")

    record = bench(
        shell, ready["namesrv"], "produce", "-t", "shape", *shape, "--server-pid", str(ready["pid"])
    )

    assert record["messages"] == stored(ready["namesrv"], "shape") == 600
    assert record["idle_bytes"] is not None


def test_every_message_reaches_one_of_many_readers(shell: Any, address: str) -> None:
    readers = ("--readers", "12", "-q", "12")

    record = bench(shell, address, "roundtrip", "-t", "woken", "--rate", "300", "--count", "200", *readers)

    assert record["messages_in_all"] == record["delivered_in_all"] == 200


def test_many_leaves_a_message_in_each_queue_and_tells_what_they_cost(shell: Any, up: Any) -> None:
    ready = up().ready()
    crowd = ("-c", "20", "-T", "5", "-Q", "3", "-G", "4", "--rounds", "1", "-d", "1", "--warm-up", "0")

    record = bench(shell, ready["namesrv"], "many", *crowd, "--server-pid", str(ready["pid"]))

    assert record["rate_to_one"] > 0
    assert record["rate_to_all"] > 0
    assert record["bytes_per_connection"] is not None
    with Admin(ready["namesrv"]) as admin:
        route = admin.route("many-4").queue_datas[0]
        ends = [admin.max_offset(MessageQueue("many-4", route.broker_name, number)) for number in range(3)]
    assert all(ends)


def test_the_server_s_processor_time_is_told_when_its_process_is_named(shell: Any, up: Any) -> None:
    ready = up().ready()

    table = shell.output_of(
        "bench", "produce", "-n", ready["namesrv"], "-d", "1", "--server-pid", str(ready["pid"])
    )

    assert "messages per CPU second" in table


def test_a_topic_that_nobody_knows_cannot_be_read(shell: Any, address: str) -> None:
    ended = shell.run("bench", "consume", "-n", address, "-t", "nowhere")

    assert ended.returncode == 3
    assert "nowhere" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_help_teaches_with_examples(shell: Any) -> None:
    assert "pyromq bench produce --rate 5000 --json" in shell.output_of("bench", "--help")
