"""The C++ driver, through the wheel that binds librocketmq 1.x (see ../../README.md)."""

import json
import sys
import threading
import time

from rocketmq.client import Message, Producer, PushConsumer
from rocketmq.exceptions import ProducerSendSyncFailed
from rocketmq.ffi import _CLogLevel, dll

NAME_SERVER = sys.argv[1]
PROPERTIES = ("KEYS", "TAGS", "UNIQ_KEY", "index", "note")
members = {}
printing = threading.Lock()


def emit(**event):
    with printing:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def message(topic, index):
    made = Message(topic)
    made.set_tags(f"tag-{index % 3}")
    made.set_keys(f"key-{index} all")
    made.set_body(f"body {index} é中" + ("x" * 5000 if index % 100 == 7 else ""))
    made.set_property("index", str(index))
    made.set_property("note", f"naïve 中文 {index}")
    return made


def sent(mode, index, result):
    emit(
        event="sent",
        mode=mode,
        index=index,
        status=result.status.name,
        id=result.msg_id,
        offset_id=None,
        broker=None,
        queue=None,
        offset=result.offset,
    )


def send_async(producer, topic, first, count):
    left = threading.Semaphore(0)
    failures = []

    def failed(error):
        failures.append(error)
        left.release()

    def succeeded(index):
        def report(result):
            sent("async", index, result)
            left.release()

        return report

    made = [message(topic, index) for index in range(first, first + count)]
    for index, one in enumerate(made, first):
        producer.send_async(one, succeeded(index), failed)
    for _ in made:
        if not left.acquire(timeout=30):
            raise TimeoutError("an asynchronous send was not answered")
    if failures:
        raise failures[0]


def send_sync(producer, one, is_first):
    # While its heartbeat connects to the brokers a first send may find them «locked», and gives up at once.
    deadline = time.monotonic() + 30
    while True:
        try:
            return producer.send_sync(one)
        except ProducerSendSyncFailed:
            if not is_first or time.monotonic() > deadline:
                raise


def send(producer, mode, topic, first, count):
    if mode == "async":
        send_async(producer, topic, first, count)
    elif mode == "oneway":
        for index in range(first, first + count):
            producer.send_oneway(message(topic, index))
    else:
        for index in range(first, first + count):
            sent(mode, index, send_sync(producer, message(topic, index), is_first=index == 0))


def join(name, group, topic, orderly, tags):
    member = PushConsumer(group, orderly=orderly)
    member.set_namesrv_addr(NAME_SERVER)
    member.set_instance_name(name)
    member.set_thread_count(2)
    dll.SetPushConsumerLogLevel(member._handle, _CLogLevel.ERROR)

    def consumed(got):
        emit(
            event="consumed",
            member=name,
            topic=got.topic,
            broker=None,
            queue=got.queue_id,
            offset=got.queue_offset,
            position=got.commit_log_offset,
            id=got.id,
            offset_id=None,
            times=got.reconsume_times,
            keys=text(got.keys),
            tags=text(got.tags),
            body=got.body.decode(),
            properties={key: text(got.get_property(key)) for key in PROPERTIES},
        )

    member.subscribe(topic, consumed, tags)
    member.start()
    members[name] = member


def run(producer, words):
    if words[0] == "send":
        send(producer, words[1], words[2], int(words[3]), int(words[4]))
    elif words[0] == "join":
        join(words[1], words[2], words[3], words[4] == "orderly", words[5])
    elif words[0] == "leave":
        members.pop(words[1]).shutdown()
    else:
        raise ValueError(f"unknown command {words[0]}")


def main():
    producer = Producer("interop_cpp_producer")
    producer.set_namesrv_addr(NAME_SERVER)
    dll.SetProducerLogLevel(producer._handle, _CLogLevel.ERROR)
    dll.SetProducerInstanceName(producer._handle, b"producer")
    producer.start()
    # Left out, because it fails on Apache's broker too: a batch, which it marks in a way that the broker
    # does not know and so stores as one message; a takeover, as it leaves some queues locked at its shutdown.
    emit(event="ready", can=["sync", "async", "oneway", "orderly"])
    for line in sys.stdin:
        command = line.rstrip("\n")
        if command == "quit":
            break
        try:
            run(producer, command.split(" "))
            emit(event="done", command=command)
        except Exception as error:  # noqa: BLE001 the test reads it
            emit(event="failed", command=command, error=repr(error))
    for member in members.values():
        member.shutdown()
    producer.shutdown()
    emit(event="stopped")


main()
