"""Bytes: numbers, checksums, growing memory, the heads of requests and answers, the layout of a record."""
