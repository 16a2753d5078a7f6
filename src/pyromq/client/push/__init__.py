"""The push consumer: the engine of every consumer (`client/consumer`) with a listener as its outlet.

    pulls ─► concurrent | orderly ─► calling (tasks or threads) ─► listener
                             └─► ProcessQueue: what is finished, or plans/send_back

`process_queue`, `outcome` and `delivery` know no loop and no socket.
"""
