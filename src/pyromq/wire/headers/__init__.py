"""Typed headers, by area. A class is named after its request; `…Answer` is the answer's.

`registry.py` says which belongs to which code.
"""
