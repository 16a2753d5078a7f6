"""Services in ten lines: handlers of messages with typed bodies, on the public client.

    app = App("billing", "127.0.0.1:9876")

    @app.consumer("orders", tags="paid", retries=5)
    async def charge(order: Order) -> None:
        await app.publish("invoices", Invoice(order.id))

`pyromq run module:app` runs it; inside a web application its lifespan does. `app.test()` calls the handlers
without a broker.
"""

from pyromq.app.app_stage import AppStage, DeadMessage
from pyromq.app.application import App
from pyromq.app.handler_terms import HandlerTerms
from pyromq.app.outcomes import Reject, RetryLater
from pyromq.app.typed_bodies import BadBody

__all__ = ["App", "AppStage", "BadBody", "DeadMessage", "HandlerTerms", "Reject", "RetryLater"]
