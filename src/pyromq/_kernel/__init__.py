"""What is done for each message, compiled: bytes in, bytes out, no decisions and no I/O.

`DESIGN.md` beside this file says how; `pyromq.kernel` says whether it is there.
"""
