import inspect

import pytest

import pyromq
from pyromq import aio
from pyromq.errors import ClientClosed, ConfigError

FACES = [(getattr(pyromq, name), getattr(aio, name)) for name in aio.__all__]
BLOCKING = ("__enter__", "__exit__")
AWAITABLE = ("__aenter__", "__aexit__")


def public_methods(face: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(face, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    }


def parameters(signature: inspect.Signature) -> list[tuple[str, object, object, object]]:
    return [
        (parameter.name, parameter.kind, parameter.default, parameter.annotation)
        for parameter in signature.parameters.values()
    ]


def test_the_awaitable_names_are_names_of_the_blocking_face_too() -> None:
    assert set(aio.__all__) >= {"Admin", "Producer", "PullConsumer", "TransactionProducer"}
    assert set(aio.__all__) <= set(pyromq.__all__)


@pytest.mark.parametrize(("blocking", "awaitable"), FACES, ids=aio.__all__)
def test_both_faces_have_the_same_methods_with_the_same_parameters(blocking: type, awaitable: type) -> None:
    one, other = public_methods(blocking), public_methods(awaitable)

    assert one.keys() == other.keys()
    differing = [name for name in one if parameters(one[name]) != parameters(other[name])]
    assert differing == []


@pytest.mark.parametrize(("blocking", "awaitable"), FACES, ids=aio.__all__)
def test_both_faces_return_the_same(blocking: type, awaitable: type) -> None:
    one, other = public_methods(blocking), public_methods(awaitable)

    differing = {name for name in one if one[name].return_annotation != other[name].return_annotation}
    # A future of the caller's own kind, and an iterator of it.
    assert differing <= {"send_async", "request_async", "messages", "read", "replay", "rehearse"}


@pytest.mark.parametrize(("blocking", "awaitable"), FACES, ids=aio.__all__)
def test_both_faces_are_context_managers(blocking: type, awaitable: type) -> None:
    assert all(hasattr(blocking, name) for name in BLOCKING)
    assert all(hasattr(awaitable, name) for name in AWAITABLE)


@pytest.mark.parametrize(("blocking", "awaitable"), FACES, ids=aio.__all__)
def test_every_public_method_says_what_it_does(blocking: type, awaitable: type) -> None:
    for face in (blocking, awaitable):
        silent = [
            name for name in public_methods(face) if name != "__init__" and not getattr(face, name).__doc__
        ]
        assert silent == []


def test_every_public_name_is_there() -> None:
    assert [name for name in pyromq.__all__ if not hasattr(pyromq, name)] == []


@pytest.mark.parametrize("face", [pyromq.Producer, pyromq.PullConsumer, aio.Producer, aio.PullConsumer])
@pytest.mark.row("PR-02")
def test_a_group_without_a_proper_name_is_refused_at_once(face: type) -> None:
    with pytest.raises(ConfigError, match="group"):
        face("not a group", name_server="127.0.0.1:9876")


@pytest.mark.row("PR-01")
def test_a_producer_is_used_between_start_and_close() -> None:
    producer = pyromq.Producer("group", name_server="127.0.0.1:9876")
    message = pyromq.Message("t", b"x")

    with pytest.raises(ClientClosed, match=r"start\(\)"):
        producer.send(message)
    with producer, pytest.raises(pyromq.AlreadyStarted):
        producer.start()
    with pytest.raises(ClientClosed, match="make a new one"):
        producer.send(message)
    with pytest.raises(ClientClosed, match="make a new one"):
        producer.start()


@pytest.mark.row("PR-01")
async def test_an_awaitable_producer_is_used_between_start_and_close() -> None:
    producer = aio.Producer("group", name_server="127.0.0.1:9876")
    message = pyromq.Message("t", b"x")

    with pytest.raises(ClientClosed, match=r"start\(\)"):
        await producer.send(message)
    async with producer:
        with pytest.raises(pyromq.AlreadyStarted):
            await producer.start()
    with pytest.raises(ClientClosed, match="make a new one"):
        await producer.send(message)
    with pytest.raises(ClientClosed, match="make a new one"):
        await producer.start()


def test_what_was_never_started_can_be_closed() -> None:
    pyromq.Producer("group", name_server="127.0.0.1:9876").close()
    pyromq.PullConsumer("group", name_server="127.0.0.1:9876").close()
    pyromq.Admin("127.0.0.1:9876").close()
