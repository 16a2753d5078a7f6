import threading

import pytest

from pyromq.client.producer.callbacks import call_back
from pyromq.client.sync.producer import Senders
from pyromq.errors import NoRoute
from pyromq.model import MessageQueue, SendResult, SendStatus

SENT = SendResult(SendStatus.SEND_OK, "U", "ID", MessageQueue("t", "a", 0), 0)


def test_a_callback_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_result: int | None, _error: BaseException | None) -> None:
        raise ValueError("mine")

    call_back(broken, 1, None)

    assert "a callback failed" in caplog.text
    assert "mine" in caplog.text


@pytest.mark.row("SM-02")
def test_a_callback_is_called_on_the_sending_thread_even_when_the_send_is_over_at_once() -> None:
    senders, threads = Senders(), []

    def note(result: SendResult | None, error: BaseException | None) -> None:
        threads.append((threading.current_thread(), result, error))

    futures = [senders.submit(lambda: SENT, 10.0, note) for _ in range(50)]

    assert [future.result(10) for future in futures] == [SENT] * 50
    senders.close()
    assert len(threads) == 50
    assert {result for _, result, _ in threads} == {SENT}
    assert threading.current_thread() not in {thread for thread, _, _ in threads}


@pytest.mark.row("SM-02")
def test_a_callback_gets_the_error_that_the_future_has() -> None:
    senders, seen = Senders(), []
    failure = NoRoute("nowhere")

    def fail() -> SendResult:
        raise failure

    future = senders.submit(fail, 10.0, lambda result, error: seen.append((result, error)))

    assert future.exception(10) is failure
    senders.close()
    assert seen == [(None, failure)]
