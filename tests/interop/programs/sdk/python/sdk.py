"""Drives the gRPC SDK for Python: the commands are those of `tests/interop/README.md`, "SDKs of 5.x"."""

import json
import math
import sys
import threading
import time

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

printing = threading.Lock()
clients = {}
held = {}


def show(event, **fields):
    with printing:
        print(json.dumps({"event": event, **fields}), flush=True)


def show_message(event, member, message):
    show(
        event,
        member=member,
        body=message.body.decode(),
        id=message.message_id,
        topic=message.topic,
        tag=message.tag,
        keys=sorted(message.keys),
        properties=dict(message.properties),
        group=message.message_group,
        due=message.delivery_timestamp or None,
        attempt=message.delivery_attempt,
        at=int(time.time() * 1000),
    )


class Checker(TransactionChecker):
    def __init__(self, name):
        self.name = name

    def check(self, message):
        show_message("checked", self.name, message)
        word = message.body.decode().split("-")[0]
        found = {"commit": TransactionResolution.COMMIT, "rollback": TransactionResolution.ROLLBACK}
        return found.get(word, TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED)


class Listener(MessageListener):
    def __init__(self, name):
        self.name = name

    def consume(self, message):
        show_message("consumed", self.name, message)
        fails = message.body.startswith(b"fails") and message.delivery_attempt == 1
        return ConsumeResult.FAILURE if fails else ConsumeResult.SUCCESS


def made(topic, body, index):
    message = Message()
    message.topic = topic
    message.body = body.encode()
    message.tag = f"tag-{index % 2}"
    for key in (body, "all"):
        message.keys = key
    message.add_property("note", f"naïve 中文 {index}")
    return message


def sent(body, receipt):
    show("sent", body=body, id=receipt.message_id, recall=getattr(receipt, "recall_handle", None) or None)


def send(name, kind, topic, prefix, count, *more):
    for index in range(int(count)):
        message = made(topic, f"{prefix}-{index}", index)
        if kind == "fifo":
            message.message_group = more[0]
        elif kind == "delay":
            # This SDK counts in seconds: the next one, so that nothing comes before its time.
            message.delivery_timestamp = math.ceil(time.time() + int(more[0]) / 1000)
        sent(f"{prefix}-{index}", clients[name].send(message))


def transact(name, topic, body, end):
    transaction = clients[name].begin_transaction()
    sent(body, clients[name].send(made(topic, body, 0), transaction))
    if end != "later":
        getattr(transaction, end)()


def started(name, client):
    client.startup()
    clients[name] = client


def produce(configuration, tls, name, topics):
    started(name, Producer(configuration, topics.split(","), checker=Checker(name), tls_enable=tls))


def start_simple(configuration, tls, name, group, topic, tags):
    wanted = {topic: FilterExpression(tags)}
    started(name, SimpleConsumer(configuration, group, wanted, await_duration=5, tls_enable=tls))


def start_push(configuration, tls, name, group, topic, tags):
    wanted = {topic: FilterExpression(tags)}
    started(name, PushConsumer(configuration, group, Listener(name), wanted, tls_enable=tls))


def recall(name, topic, handle):
    show("recalled", id=clients[name].recall_message(topic, handle))


def receive(name, count, invisible_s):
    for message in clients[name].receive(int(count), int(invisible_s)) or ():
        held[message.message_id] = message
        show_message("received", name, message)


def ack(name, message_id):
    clients[name].ack(held[message_id])


def hide(name, message_id, seconds):
    clients[name].change_invisible_duration(held[message_id], int(seconds))


def leave(name):
    clients.pop(name).shutdown()


STARTS = {"producer": produce, "simple": start_simple, "push": start_push}
COMMANDS = {one.__name__: one for one in (send, transact, recall, receive, ack, hide, leave)}


def perform(configuration, tls, command, *words):
    if command in STARTS:
        STARTS[command](configuration, tls, *words)
    else:
        COMMANDS[command](*words)


def main():
    endpoint, tls, key, secret = sys.argv[1:5]
    credentials = Credentials() if key == "-" else Credentials(key, secret)
    configuration = ClientConfiguration(endpoint, credentials)
    show("ready", can=["fifo", "delay", "recall", "transaction", "simple", "hide", "push"])
    for line in sys.stdin:
        words = line.split()
        if words[0] == "quit":
            break
        try:
            perform(configuration, tls == "tls", *words)
        except Exception as error:  # noqa: BLE001 whatever the SDK raises is told
            show("failed", error=f"{type(error).__name__}: {error}")
        else:
            show("done")
    for client in clients.values():
        client.shutdown()
    show("stopped")


main()
