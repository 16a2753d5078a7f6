"""Which thread matters, out of the stacks that consumers send."""

from pyromq.doctor.stacks import CALLS_MAX, Thread, listening_thread

JAVA = """\
main                                    TID: 1 STATE: WAITING
main                                    java.lang.Object.wait(Native Method)

ConsumeMessageThread_billing_1          TID: 42 STATE: TIMED_WAITING
ConsumeMessageThread_billing_1          java.lang.Thread.sleep(Native Method)
ConsumeMessageThread_billing_1          com.shop.Database.insert(Database.java:17)
ConsumeMessageThread_billing_1          com.shop.Billing.consumeMessage(Billing.java:31)
ConsumeMessageThread_billing_1          org.apache.rocketmq.client.impl.consumer.ConsumeMessageConcurrentlyService$ConsumeRequest.run(ConsumeMessageConcurrentlyService.java:411)
ConsumeMessageThread_billing_1          java.util.concurrent.Executors$RunnableAdapter.call(Executors.java:511)
ConsumeMessageThread_billing_1          java.util.concurrent.ThreadPoolExecutor.runWorker(ThreadPoolExecutor.java:1149)
ConsumeMessageThread_billing_1          java.lang.Thread.run(Thread.java:748)

ConsumeMessageThread_billing_2          TID: 43 STATE: WAITING
ConsumeMessageThread_billing_2          sun.misc.Unsafe.park(Native Method)
ConsumeMessageThread_billing_2          java.util.concurrent.ThreadPoolExecutor.getTask(ThreadPoolExecutor.java:1074)
ConsumeMessageThread_billing_2          java.lang.Thread.run(Thread.java:748)
"""  # noqa: E501  as Java writes it

PYTHON = """\
MainThread TID: 140
  File "/app/main.py", line 3, in <module>
    wait()

pyromq-listener-billing-1 TID: 141
  File "/usr/lib/python3.11/threading.py", line 1002, in _bootstrap
    self._bootstrap_inner()
  File "/site/pyromq/client/push/calling.py", line 280, in _work
    self._call(work)
  File "/site/pyromq/client/push/calling.py", line 112, in <lambda>
    return lambda work: function(work.messages[0])
  File "/app/billing.py", line 31, in handle
    is_done.wait()
  File "/usr/lib/python3.11/threading.py", line 629, in wait
    signaled = self._cond.wait(timeout)

pyromq-listener-billing-2 TID: 142
  File "/usr/lib/python3.11/threading.py", line 1002, in _bootstrap
    self._bootstrap_inner()
  File "/site/pyromq/client/push/calling.py", line 270, in _work
    item = self._waiting.get()
"""


def test_of_a_java_consumer_the_listeners_own_calls_are_left_the_innermost_last() -> None:
    assert listening_thread(JAVA, "billing") == Thread(
        "ConsumeMessageThread_billing_1",
        (
            "com.shop.Billing.consumeMessage(Billing.java:31)",
            "com.shop.Database.insert(Database.java:17)",
            "java.lang.Thread.sleep(Native Method)",
        ),
    )


def test_what_newer_javas_write_around_calls_is_left_out() -> None:
    newer = (
        JAVA.replace(" java.", " java.base@17.0.15/java.")
        .replace(" com.shop", " app//com.shop")
        .replace(
            "ConsumeMessageThread_billing_1          org.apache",
            "ConsumeMessageThread_billing_1          app//Shop$$Lambda$36/0x7fa7.accept(Unknown Source)\n"
            "ConsumeMessageThread_billing_1          app//org.apache",
        )
    )

    assert listening_thread(newer, "billing") == listening_thread(JAVA, "billing")


def test_of_a_consumer_of_ours_they_are_left_with_their_code() -> None:
    assert listening_thread(PYTHON, "billing") == Thread(
        "pyromq-listener-billing-1",
        (
            'File "/app/billing.py", line 31, in handle: is_done.wait()',
            'File "/usr/lib/python3.11/threading.py", line 629, in wait: signaled = self._cond.wait(timeout)',
        ),
    )


def test_of_several_threads_the_place_is_told_where_most_are() -> None:
    third = PYTHON.replace("billing-1", "billing-3").replace("line 31, in handle", "line 40, in handle")
    fourth = third.replace("billing-3", "billing-4")

    thread = listening_thread(PYTHON + third + fourth, "billing")

    assert thread is not None
    assert (thread.name, thread.count) == ("pyromq-listener-billing-3", 2)


def test_the_threads_of_another_group_are_only_looked_at_where_none_is_named_after_this_one() -> None:
    assert listening_thread(PYTHON + JAVA.replace("billing", "audit"), "audit") == listening_thread(
        JAVA.replace("billing", "audit"), "audit"
    )
    unnamed = JAVA.replace("ConsumeMessageThread_billing_", "ConsumeMessageThread_")
    thread = listening_thread(unnamed, "billing")
    assert thread is not None
    assert thread.name == "ConsumeMessageThread_1"


def test_where_all_wait_for_work_there_is_no_thread() -> None:
    busy, idle = PYTHON.index("pyromq-listener-billing-1"), PYTHON.index("pyromq-listener-billing-2")
    idle_stacks = PYTHON[:busy] + PYTHON[idle:]

    assert listening_thread(idle_stacks, "billing") is None
    assert listening_thread("", "billing") is None


def test_a_deep_stack_is_shown_by_its_first_and_last_calls() -> None:
    deep = Thread("t", tuple(f"call {number}" for number in range(30)))

    assert len(deep.shown) == CALLS_MAX
    assert (deep.shown[0], deep.shown[1], deep.shown[-1]) == ("call 0", "…", "call 29")
