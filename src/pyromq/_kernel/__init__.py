"""The compiled kernel: the work for each message, bytes in, bytes out, without decisions and without I/O.

`DESIGN.md` beside this file says how it works; `pyromq.kernel` says whether it is installed.
"""
