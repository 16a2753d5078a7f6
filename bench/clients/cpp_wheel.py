"""The C++ wheel (rocketmq 0.4.4) under load, for bench/client.py, with the arguments of ours.py.

It runs in an environment of its own, where PyroMQ is not.
"""

import json
import sys
import threading
import time

from rocketmq.client import Message, Producer, PushConsumer
from rocketmq.exceptions import ProducerSendSyncFailed
from rocketmq.ffi import _CLogLevel, dll

WINDOW = 256
NAME_SERVER, MODE, TOPIC = sys.argv[1:4]
SIZE, COUNT = int(sys.argv[4]), int(sys.argv[7])
WARM_S, RUN_S = float(sys.argv[5]), float(sys.argv[6])


def report(messages, began):
    """Print what was done since a moment."""
    seconds, cpu_seconds = time.monotonic() - began[0], time.process_time() - began[1]
    print(json.dumps({"messages": messages, "seconds": seconds, "cpu_seconds": cpu_seconds}), flush=True)


def now():
    """Return the time, and the processor time of all threads."""
    return time.monotonic(), time.process_time()


def message():
    """Return a message to send."""
    made = Message(TOPIC)
    made.set_body("x" * SIZE)
    return made


def new_producer():
    """Return a producer whose first send was stored."""
    producer = Producer("bench_cpp")
    producer.set_namesrv_addr(NAME_SERVER)
    dll.SetProducerLogLevel(producer._handle, _CLogLevel.ERROR)
    producer.start()
    deadline = time.monotonic() + 5
    while True:
        # While its heartbeat connects to the brokers, a first send may fail at once.
        try:
            producer.send_sync(message())
        except ProducerSendSyncFailed:
            if time.monotonic() > deadline:
                raise
        else:
            return producer


def send_one_after_the_other():
    """Send on one thread, and wait for each answer."""
    producer = new_producer()
    for seconds in (WARM_S, RUN_S):
        began, sent = now(), 0
        while time.monotonic() < began[0] + seconds:
            producer.send_sync(message())
            sent += 1
    report(sent, began)
    producer.shutdown()


def send_many_at_once():
    """Send by callbacks, with a window of sends under way."""
    producer = new_producer()
    window = threading.Semaphore(WINDOW)
    failures = []

    def succeeded(_result):
        window.release()

    def failed(error):
        failures.append(error)
        window.release()

    for seconds in (WARM_S, RUN_S):
        began, sent = now(), 0
        while time.monotonic() < began[0] + seconds:
            window.acquire()
            producer.send_async(message(), succeeded, failed)
            sent += 1
        for _ in range(WINDOW):
            window.acquire()
        ended = now()
        for _ in range(WINDOW):
            window.release()
    if failures:
        raise failures[0]
    seconds, cpu_seconds = ended[0] - began[0], ended[1] - began[1]
    print(json.dumps({"messages": sent, "seconds": seconds, "cpu_seconds": cpu_seconds}), flush=True)
    producer.shutdown()


def push_to_threads():
    """Have a listener count a topic's messages."""
    lock, ended, warm = threading.Lock(), threading.Event(), COUNT // 5
    state = {"messages": 0, "began": now()}

    def handle(_message):
        with lock:
            state["messages"] += 1
            if state["messages"] == warm:
                state["began"] = now()
            if state["messages"] == COUNT:
                ended.set()

    consumer = PushConsumer(f"bench_cpp_{time.time_ns()}")
    consumer.set_namesrv_addr(NAME_SERVER)
    dll.SetPushConsumerLogLevel(consumer._handle, _CLogLevel.ERROR)
    consumer.subscribe(TOPIC, handle)
    consumer.start()
    assert ended.wait(240), state
    report(COUNT - warm, state["began"])
    consumer.shutdown()


{"sync": send_one_after_the_other, "async": send_many_at_once, "push": push_to_threads}[MODE]()
