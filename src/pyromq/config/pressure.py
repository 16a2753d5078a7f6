"""Limits for fast failure: how long requests may wait before a busy broker refuses them, and how many may.

RocketMQ has a queue before each of its pools of threads. Here is one loop, and the same settings say how long
a request may have waited for it, and how many may wait for their answers.
"""

from dataclasses import dataclass

from pyromq.config.field import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureSettings:
    """Limits on the time that requests wait at a broker, and on their number."""

    broker_fast_failure_enable: bool = setting(
        True, "Refuse requests that waited too long here with SYSTEM_BUSY, rather than late.", live=True
    )
    wait_time_mills_in_send_queue: int = setting(
        200, "Milliseconds after which a send that waits is refused.", at_least=1, live=True
    )
    wait_time_mills_in_pull_queue: int = setting(
        5_000, "Milliseconds after which a pull that waits to be read is refused.", at_least=1, live=True
    )
    wait_time_mills_in_heartbeat_queue: int = setting(
        31_000, "Milliseconds after which a heartbeat that waits is refused.", at_least=1, live=True
    )
    wait_time_mills_in_transaction_queue: int = setting(
        3_000,
        "Milliseconds after which the end of a transaction that waits is refused.",
        at_least=1,
        live=True,
    )
    os_page_cache_busy_time_out_mills: int = setting(
        1_000,
        "Milliseconds that a write to the log may take; the sends that waited for a longer one are refused.",
        at_least=1,
        live=True,
    )
    send_thread_pool_queue_capacity: int = setting(
        10_000, "Sends that may wait for disk or slaves; one more is refused.", at_least=1, live=True
    )
    pull_thread_pool_queue_capacity: int = setting(
        100_000, "Pulls that may wait for their answers besides those held.", at_least=1, live=True
    )
    reply_thread_pool_queue_capacity: int = setting(
        10_000, "Replies that may wait for disk or slaves.", at_least=1, live=True
    )
    heartbeat_thread_pool_queue_capacity: int = setting(
        50_000, "Heartbeats that may wait for their answers.", at_least=1, live=True
    )
    end_transaction_pool_queue_capacity: int = setting(
        100_000, "Ends of transactions that may wait for disk or slaves.", at_least=1, live=True
    )


#: The settings as they are when nobody says otherwise.
UNCHANGED = PressureSettings()
