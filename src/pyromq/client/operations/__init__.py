"""The clients' methods, each declared once for the blocking and the awaitable face (decision 35)."""
