"""A service: handlers with typed bodies; `pyromq run examples.service:app` would serve it until Ctrl-C.

python examples/service.py [HOST:PORT of the name server]
"""

import asyncio
import os
import sys

from pyromq import App, ConsumeFrom

FIRST = ConsumeFrom.FIRST_OFFSET
app = App("shop", sys.argv[1] if sys.argv[1:] else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
is_posted = asyncio.Event()


@app.consumer("shop-sales", tags="paid", retries=3, publishes="shop-invoices", consume_from=FIRST)
def bill(order: dict[str, float]) -> dict[str, float]:
    """Bill an order; what it returns is published, and an exception brings the order again later."""
    return {"order": order["id"], "total": order["amount"] * 1.25}


@app.consumer("shop-invoices", consume_from=FIRST)
async def post(invoice: dict[str, float]) -> None:
    """Note that an invoice is there."""
    print(f"order {invoice['order']:.0f} is billed: {invoice['total']:.2f}")
    is_posted.set()


async def main() -> None:
    """Run the service until one order is billed."""
    async with app:
        await app.publish("shop-sales", {"id": 7, "amount": 100}, tags="paid", keys=["order-7"])
        await asyncio.wait_for(is_posted.wait(), 60)


if __name__ == "__main__":
    asyncio.run(main())
