"""The lifespan of ASGI, for web applications that have none of their own."""

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def with_lifespan(application: Asgi, lifespan: Callable[[], AbstractAsyncContextManager[None]]) -> Asgi:
    """Return an application that enters `lifespan` while its server runs, and passes requests on."""

    async def asgi(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await application(scope, receive, send)
            return
        async with AsyncExitStack() as running:
            while True:
                event = await receive()
                if event["type"] == "lifespan.startup":
                    try:
                        await running.enter_async_context(lifespan())
                    except Exception as error:
                        await send({"type": "lifespan.startup.failed", "message": f"{error}"})
                        raise
                    await send({"type": "lifespan.startup.complete"})
                elif event["type"] == "lifespan.shutdown":
                    await running.aclose()
                    await send({"type": "lifespan.shutdown.complete"})
                    return

    return asgi
