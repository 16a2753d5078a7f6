"""Consumers in POP mode: messages are taken one by one from all queues of a broker, and ended one by one.

    SimpleConsumer   plans/receive_plans ─► plans/pop_plans, on the caller's thread or loop
    PushConsumer     assignments ─► pops ─► pop_concurrent | pop_orderly ─► listener ─► acknowledgements

`popped_batch` knows no loop and no socket.
"""
