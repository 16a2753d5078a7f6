"""The push consumer: an engine on an asyncio loop that pulls, calls listeners, and shares queues.

    timers ─► rebalance ─► a ProcessQueue and a task that pulls, for each queue that is this member's
    pulling ─► concurrent | orderly ─► calling (tasks or threads) ─► listener
                       └─► progress, or plans/send_back

What is decided without waiting for anybody stands apart from what waits: `process_queue`, `flow`, `outcome`,
`subscriptions`, `shares` and `figures` know no loop and no socket.
"""
