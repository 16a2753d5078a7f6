"""Many threads, many tasks, callbacks, and a fork."""

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyromq import Message, MessageIllegal, NoRoute, Producer, PyroError, SendResult, aio
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import aeventually, eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


def test_many_threads_share_a_producer(address: str) -> None:
    with Producer("group", address) as producer, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: producer.send(Message("threads", b"%d" % n)), range(200)))

    assert len({result.message_id for result in results}) == 200
    assert len({(result.queue, result.queue_offset) for result in results}) == 200


async def test_many_tasks_share_a_producer(address: str) -> None:
    async with aio.Producer("group", address) as producer:
        results = await asyncio.gather(
            *(producer.send(Message("tasks", b"%d" % number)) for number in range(200))
        )

    assert len({(result.queue, result.queue_offset) for result in results}) == 200


@pytest.mark.row("SM-02", "PR-17")
def test_a_callback_gets_the_result_on_another_thread(address: str) -> None:
    heard: list[tuple[SendResult | None, BaseException | None, int]] = []

    with Producer("group", address) as producer:
        future = producer.send_async(
            Message("callbacks", b"x"),
            lambda result, error: heard.append((result, error, threading.get_ident())),
        )
        sent = future.result(10)
        eventually(lambda: heard)

    (result, error, thread) = heard[0]
    assert (result, error) == (sent, None)
    assert thread != threading.get_ident()


@pytest.mark.row("SM-02")
def test_a_callback_gets_the_error(address: str) -> None:
    heard: list[BaseException | None] = []
    no_queue = NoRoute("none of these")

    def refuse(_queues: object, _message: object) -> object:
        raise no_queue

    with Producer("group", address) as producer:
        producer.send_async(
            Message("callbacks", b"x"),
            lambda _result, error: heard.append(error),
            selector=refuse,  # type: ignore[arg-type]
        )

    assert heard == [no_queue]


@pytest.mark.row("SM-02")
def test_closing_waits_for_the_sends_under_way(address: str) -> None:
    with Producer("group", address) as producer:
        futures = [producer.send_async(Message("closing", b"%d" % number)) for number in range(50)]

    assert len({future.result(0).message_id for future in futures}) == 50


@pytest.mark.row("SM-02")
async def test_an_awaitable_producer_has_callbacks_too(address: str) -> None:
    heard: list[SendResult | None] = []

    async with aio.Producer("group", address) as producer:
        task = producer.send_async(Message("callbacks", b"x"), lambda result, _error: heard.append(result))
        sent = await task
        await aeventually(lambda: heard)

    assert heard == [sent]


@pytest.mark.row("SM-02")
async def test_closing_an_awaitable_producer_waits_for_the_sends_under_way(address: str) -> None:
    async with aio.Producer("group", address) as producer:
        tasks = [producer.send_async(Message("closing", b"%d" % number)) for number in range(50)]

    assert len({task.result().message_id for task in tasks}) == 50


async def test_an_illegal_message_sent_asynchronously_is_the_task_s_error(address: str) -> None:
    async with aio.Producer("group", address) as producer:
        with pytest.raises(MessageIllegal):
            await producer.send_async(Message("callbacks", b""))


def test_a_cancelled_send_leaves_the_producer_working(address: str) -> None:
    async def story() -> SendResult:
        async with aio.Producer("group", address) as producer:
            task = asyncio.create_task(producer.send(Message("cancelled", b"1")))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            return await producer.send(Message("cancelled", b"2"))

    assert asyncio.run(story()).queue.topic == "cancelled"


FORKING = """
    import os, sys
    from pyromq import Message, Producer

    with Producer("group", sys.argv[1]) as producer:
        before = producer.send(Message("forks", b"parent"))
        child = os.fork()
        if child == 0:
            result = producer.send(Message("forks", b"child"))
            asynchronous = producer.send_async(Message("forks", b"child")).result(10)
            print("child", result.message_id, asynchronous.message_id, flush=True)
            producer.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        after = producer.send(Message("forks", b"parent"))
        print("parent", before.message_id, after.message_id, flush=True)
"""


def test_a_producer_works_on_in_a_child_of_fork_with_ids_of_its_own(address: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORKING), address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    lines = {line.split()[0]: line.split()[1:] for line in ended.stdout.splitlines()}
    ids = lines["parent"] + lines["child"]
    assert len(set(ids)) == 4
    # Address, process and source: the first 20 characters tell parent and child apart.
    assert {each[:20] for each in lines["parent"]}.isdisjoint(each[:20] for each in lines["child"])


FORKING_ASYNC = """
    import asyncio, os, sys
    from pyromq import ClientClosed, Message
    from pyromq.aio import Producer

    async def main():
        async with Producer("group", sys.argv[1]) as producer:
            await producer.send(Message("forks", b"parent"))
            child = os.fork()
            if child == 0:
                try:
                    producer.send_async(Message("forks", b"child"))
                except ClientClosed as error:
                    print(error, flush=True)
                os._exit(0)
            os.waitpid(child, 0)

    asyncio.run(main())
"""


def test_an_awaitable_producer_in_a_child_of_fork_says_what_to_do(address: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORKING_ASYNC), address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "make a new one in this one" in ended.stdout, ended.stderr


def test_all_errors_of_the_client_have_one_root(address: str) -> None:
    with Producer("group", address) as producer, pytest.raises(PyroError):
        producer.send(Message("", b""))
