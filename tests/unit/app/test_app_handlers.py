"""Handlers of an application, on a stage: bodies, results, retries, dead letters."""

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pydantic
import pytest

from pyromq.app import App, Reject, RetryLater
from pyromq.app.outcomes import Result
from pyromq.client.push.delivery import Delivery
from pyromq.errors import ClientClosed, ConfigError
from pyromq.model import ReceivedMessage
from pyromq.once import SqliteTokens


class Order(msgspec.Struct):
    id: int
    amount: float = 0.0


class Invoice(pydantic.BaseModel):
    order: int


@dataclass
class Parcel:
    order: int


@pytest.fixture
def app() -> App:
    return App("billing", "127.0.0.1:1")


def test_a_handler_gets_the_body_as_the_type_it_is_annotated_with(app: App) -> None:
    seen: list[object] = []

    @app.consumer("structs")
    async def struct(order: Order) -> None:
        seen.append(order)

    @app.consumer("models")
    async def model(invoice: Invoice) -> None:
        seen.append(invoice)

    @app.consumer("dataclasses")
    def parcel(parcel: Parcel) -> None:
        seen.append(parcel)

    @app.consumer("bytes")
    async def raw(body: bytes) -> None:
        seen.append(body)

    @app.consumer("texts")
    async def text(body: str) -> None:
        seen.append(body)

    @app.consumer("anything")
    async def anything(body) -> None:  # type: ignore[no-untyped-def]
        seen.append(body)

    with app.test() as stage:
        stage.send("structs", Order(1, 2.5))
        stage.send("models", Invoice(order=2))
        stage.send("dataclasses", Parcel(3))
        stage.send("bytes", b"\x00\xff")
        stage.send("texts", "straße")
        stage.send("anything", {"a": [1, None]})

    assert seen == [Order(1, 2.5), Invoice(order=2), Parcel(3), b"\x00\xff", "straße", {"a": [1, None]}]


def test_a_handler_may_take_the_message_and_the_delivery_too(app: App) -> None:
    seen: list[tuple[str | None, list[str], str, int]] = []

    @app.consumer("orders")
    def handle(message: ReceivedMessage, order: Order, delivery: Delivery) -> None:
        seen.append(
            (message.tags, message.keys, message.properties["city"], delivery.queue.queue_id + order.id)
        )

    with app.test() as stage:
        stage.send("orders", Order(7), tags="paid", keys=["k1", "k2"], properties={"city": "Oslo"})

    assert seen == [("paid", ["k1", "k2"], "Oslo", 7)]


def test_handlers_get_what_their_tags_and_filters_want(app: App) -> None:
    seen: list[tuple[str, int]] = []

    @app.consumer("orders", tags="paid || refunded")
    def tagged(order: Order) -> None:
        seen.append(("tags", order.id))

    @app.consumer("orders", sql="amount > 10")
    def filtered(order: Order) -> None:
        seen.append(("sql", order.id))

    with app.test() as stage:
        stage.send("orders", Order(1), tags="paid")
        stage.send("orders", Order(2), tags="new")
        stage.send("orders", Order(3), tags="new", properties={"amount": "11"})
        stage.send("others", Order(4), tags="paid")

    assert seen == [("tags", 1), ("sql", 3)]


def test_what_a_handler_returns_goes_to_its_topic_with_the_keys(app: App) -> None:
    @app.consumer("orders", publishes="invoices")
    async def invoice(order: Order) -> Invoice:
        return Invoice(order=order.id)

    seen: list[tuple[Invoice, list[str]]] = []

    @app.consumer("invoices")
    async def keep(invoice: Invoice, message: ReceivedMessage) -> None:
        seen.append((invoice, message.keys))

    with app.test() as stage:
        assert stage.send("orders", Order(7), keys="k7") == [Result.DONE, Result.DONE]

        assert stage.published("invoices", Invoice) == [Invoice(order=7)]
    assert seen == [(Invoice(order=7), ["k7"])]


def test_a_result_without_a_topic_is_refused_when_it_is_declared(app: App) -> None:
    with pytest.raises(ConfigError, match="handler invoice returns Invoice: say where that goes"):

        @app.consumer("orders")
        def invoice(order: Order) -> Invoice:
            return Invoice(order=order.id)


def test_a_failed_message_comes_again_until_its_retries_are_used_up(app: App) -> None:
    tries: list[int] = []

    @app.consumer("orders", retries=2)
    def fail(_order: Order, message: ReceivedMessage) -> None:
        tries.append(message.reconsume_times)
        raise OSError("the printer is on fire")

    with app.test() as stage:
        assert stage.send("orders", Order(1)) == [Result.RETRIED, Result.RETRIED, Result.DEAD]

        (dead,) = stage.dead
    assert tries == [0, 1, 2]
    assert (dead.handler, str(dead.error)) == ("fail", "the printer is on fire")


def test_what_is_rejected_unreadable_or_given_up_is_not_tried_again(app: App) -> None:
    @app.consumer("orders", give_up_on=(ZeroDivisionError,))
    def handle(order: Order) -> None:
        if order.id == 1:
            raise Reject("no such customer")
        raise ZeroDivisionError

    with app.test() as stage:
        assert stage.send("orders", Order(1)) == [Result.DEAD]
        assert stage.send("orders", Order(2)) == [Result.DEAD]
        assert stage.send("orders", b"{") == [Result.DEAD]
        assert stage.send("orders", {"id": "seven"}) == [Result.DEAD]

        errors = [str(dead.error) for dead in stage.dead]
    assert errors[0] == "no such customer"
    assert "the body is no Order" in errors[2]
    assert "Expected `int`, got `str`" in errors[3]


def test_dead_letters_go_to_the_topic_that_is_named_with_the_reason(app: App) -> None:
    @app.consumer("orders", dead_letter="orders.rejected")
    def handle(_order: Order) -> None:
        raise Reject("no such customer")

    with app.test() as stage:
        stage.send("orders", Order(1), tags="paid", keys=["k"], properties={"city": "Oslo"})

        buried = stage.messages[-1]
    assert (buried.topic, buried.body, buried.tags, list(buried.keys)) == (
        "orders.rejected",
        b'{"id":1,"amount":0.0}',
        "paid",
        ["k"],
    )
    assert buried.properties == {
        "city": "Oslo",
        "DEAD_REASON": "Reject('no such customer')",
        "DEAD_GROUP": "billing-handle",
        "DLQ_ORIGIN_TOPIC": "orders",
        "DLQ_ORIGIN_MESSAGE_ID": "0" * 32,
    }


@pytest.mark.parametrize("is_async", [True, False])
def test_the_delay_of_the_next_try_is_the_handlers(app: App, is_async: bool) -> None:
    def handle(_order: Order) -> None:
        raise OSError

    async def ahandle(order: Order) -> None:
        handle(order)

    app.consumer("orders", group="g1", retry_after=["1s", "1m"])(ahandle if is_async else handle)
    (handler,) = app.handlers

    assert [handler.terms.level(tries) for tries in range(3)] == [1, 5, 5]


def test_a_retry_may_say_when_it_comes(app: App) -> None:
    assert RetryLater(after="10s").level == 3
    assert RetryLater("busy").level is None
    with pytest.raises(ConfigError, match="'7s' is no delay of a retry; RocketMQ has 1s, 5s"):
        RetryLater(after="7s")


def test_a_guarded_handler_does_a_key_once(app: App, tmp_path: Path) -> None:
    seen: list[int] = []

    @app.consumer("orders", once=SqliteTokens(tmp_path / "done.db"))
    def handle(order: Order) -> None:
        seen.append(order.id)

    with app.test() as stage:
        stage.send("orders", Order(1), keys="k1")
        stage.send("orders", Order(2), keys="k1")
        stage.send("orders", Order(3), keys="k3")

    assert seen == [1, 3]


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"concurrency": 0}, "concurrency=0 must be from 1 to 1000"),
        ({"retries": -2}, "retries=-2 must be -1"),
        ({"tags": "a", "sql": "b = 1"}, "tags or sql, not both"),
        ({"key": str}, "key=… is for once"),
        ({"retry_after": "7s"}, "'7s' is no delay"),
        ({"ordered": True, "retry_after": "1m"}, "at most 30s"),
        ({"retrys": 3}, "handler handle: it got an unexpected keyword argument 'retrys'"),
        ({"group": "bad group"}, "group"),
    ],
)
def test_a_wrong_option_says_what_is_wrong(app: App, terms: dict[str, object], says: str) -> None:
    def handle(order: Order) -> None: ...

    with pytest.raises(ConfigError, match=says.replace("(", r"\(")):
        app.consumer("orders", **terms)(handle)  # type: ignore[arg-type]


def test_parameters_that_no_message_has_are_refused(app: App) -> None:
    def two(order: Order, customer: str) -> None: ...

    def none() -> None: ...

    def strange(order: set[Order | Parcel]) -> None: ...

    with pytest.raises(ConfigError, match="handler two takes customer, which is nothing that a message has"):
        app.consumer("orders")(two)
    with pytest.raises(ConfigError, match="handler none takes no parameter"):
        app.consumer("orders")(none)
    with pytest.raises(ConfigError, match="a body cannot be read as"):
        app.consumer("orders")(strange)


def test_two_handlers_of_one_group_are_refused(app: App) -> None:
    @app.consumer("orders")
    def handle(order: Order) -> None: ...

    with pytest.raises(ConfigError, match="group billing-handle has a handler already"):
        app.consumer("invoices")(handle)


async def test_a_stage_works_on_a_loop_that_runs(app: App) -> None:
    @app.consumer("orders", publishes="invoices")
    def invoice(order: Order) -> Invoice:
        app.publish_blocking("audit", {"seen": order.id})
        return Invoice(order=order.id)

    async with app.test() as stage:
        assert await stage.asend("orders", Order(7)) == [Result.DONE]

        assert stage.published("audit") == [{"seen": 7}]
    with pytest.raises(ClientClosed, match="application billing is not started: run it by `pyromq run"):
        await app.publish("audit", {})


def test_handlers_that_publish_to_each_other_for_ever_are_stopped(app: App) -> None:
    @app.consumer("a", publishes="b")
    async def first(body: dict[str, int]) -> dict[str, int]:
        return body

    @app.consumer("b", publishes="a")
    async def second(body: dict[str, int]) -> dict[str, int]:
        return body

    with app.test() as stage:
        stage.send("a", {})

    assert "one message led to 10000" in str(stage.dead[0].error)


def test_a_body_without_json_is_refused(app: App) -> None:
    with pytest.raises(ConfigError, match="a object cannot be a body"):
        app.message("orders", object())


def test_an_outbox_that_is_not_there_is_named(app: App) -> None:
    with pytest.raises(ConfigError, match="application billing has no outbox"):
        app.enqueue(None, "orders", {})  # type: ignore[arg-type]
