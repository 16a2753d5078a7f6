"""CloudEvents in messages: both modes, both ways, and what is no event."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.producer.outgoing import pairs_of
from pyromq.cloudevents import CloudEvent, NoCloudEvent, from_message, is_event, to_message
from pyromq.errors import MessageIllegal
from pyromq.model import Message

TIME = datetime(2026, 11, 19, 21, 30, tzinfo=UTC)


def event(**changes: Any) -> CloudEvent:
    given: dict[str, Any] = {
        "type": "order.paid",
        "source": "/shop",
        "id": "e-1",
        "time": TIME,
        "data": {"id": 7},
    }
    return CloudEvent(**(given | changes))


def test_binary_mode_has_attributes_in_properties_and_data_in_the_body() -> None:
    """The names are those of the binding and of the SDK for Java."""
    message = to_message(
        event(subject="7", extensions={"tenant": "north"}), "orders", tags="paid", keys=["7"]
    )

    assert message == Message(
        "orders",
        b'{"id":7}',
        tags="paid",
        keys=["7"],
        properties={
            "CE_specversion": "1.0",
            "CE_id": "e-1",
            "CE_source": "/shop",
            "CE_type": "order.paid",
            "CE_subject": "7",
            "CE_time": "2026-11-19T21:30:00Z",
            "CE_tenant": "north",
            "CE_contenttype": "application/json",
        },
    )


def test_structured_mode_has_the_event_in_the_body() -> None:
    message = to_message(event(), "orders", structured=True)

    assert message.properties == {"CE_contenttype": "application/cloudevents+json; charset=UTF-8"}
    assert message.body == (
        b'{"specversion":"1.0","id":"e-1","source":"/shop","type":"order.paid","time":"2026-11-19T21:30:00Z",'
        b'"datacontenttype":"application/json","data":{"id":7}}'
    )


@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        ({"id": 7, "items": [1, None]}, "application/json"),
        ("straße", "text/plain; charset=UTF-8"),
        (b"\xff\x00", None),
        (b"\xff\x00", "image/png"),
        (None, None),
    ],
)
def test_an_event_comes_back_as_it_was(structured: bool, data: object, media_type: str | None) -> None:
    sent = event(data=data, datacontenttype=media_type, extensions={"tenant": "north"})

    read = from_message(to_message(sent, "orders", structured=structured))

    assert read == sent


@given(
    st.text(min_size=1),
    st.text(min_size=1),
    st.dictionaries(st.from_regex(r"x[a-z0-9]{1,18}", fullmatch=True), st.text(min_size=1)),
)
def test_any_text_comes_back(source: str, subject: str, extensions: dict[str, str]) -> None:
    sent = event(source=source, subject=subject, extensions=extensions, datacontenttype="application/json")

    for structured in (True, False):
        assert from_message(to_message(sent, "orders", structured=structured)) == sent


def test_a_message_of_another_program_is_read() -> None:
    """Recorded from the binding's own example, and an event without data as the SDK for Java writes it."""
    properties = {
        "CE_contenttype": "application/avro",
        "CE_specversion": "1.0",
        "CE_type": "com.example.someevent",
        "CE_time": "2018-11-23T03:56:24Z",
        "CE_id": "1234-1234-1234",
        "CE_source": "/mycontext/subcontext",
        "other": "is not the event's",
    }
    message = Message("mytopic", b"\x00", properties=properties)

    read = from_message(message)

    assert is_event(message)
    assert (read.data, read.datacontenttype, read.extensions) == (None, "application/avro", {})
    assert read.time == datetime(2018, 11, 23, 3, 56, 24, tzinfo=UTC)


def test_an_event_s_message_is_one_that_a_producer_takes() -> None:
    message = to_message(event(extensions={"tenant": "north"}), "orders")

    assert pairs_of(message, "id", "")["CE_tenant"] == "north"


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (Message("t", b"x"), "it lacks specversion, id, source, type"),
        (Message("t", b"x", properties={"CE_id": "1", "CE_specversion": "1.0"}), "it lacks source, type"),
        (
            Message("t", b"{", properties={"CE_contenttype": "application/cloudevents+json"}),
            "no CloudEvent in JSON",
        ),
        (
            Message("t", b"[]", properties={"CE_contenttype": "application/cloudevents+json"}),
            "no CloudEvent in JSON",
        ),
        (
            Message("t", b"x", properties={"CE_contenttype": "application/cloudevents+avro"}),
            "written as application",
        ),
        (
            Message(
                "t", b'{"data_base64":"?"}', properties={"CE_contenttype": "application/cloudevents+json"}
            ),
            "no base64",
        ),
        (
            Message(
                "t",
                b"{",
                properties=to_message(event(), "t").properties,
            ),
            "the data is not application/json",
        ),
        (
            Message(
                "t", b"x", properties={**to_message(event(data=b"x"), "t").properties, "CE_time": "noon"}
            ),
            "'noon' is no RFC 3339 time",
        ),
    ],
)
def test_what_is_no_event_says_why(message: Message, says: str) -> None:
    with pytest.raises(NoCloudEvent, match=says):
        from_message(message)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"type": ""}, "needs the attribute type"),
        ({"source": None}, "needs the attribute source"),
        ({"extensions": {"Tenant": "x"}}, "'Tenant' is no name of an extension"),
        ({"extensions": {"subject": "x"}, "subject": "y"}, "'subject' is no name of an extension"),
        ({"extensions": {"data": "x"}}, "'data' is no name of an extension"),
        ({"data": object()}, "has no JSON"),
    ],
)
def test_an_event_that_may_not_be_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(MessageIllegal, match=says):
        to_message(event(**changes), "orders")
