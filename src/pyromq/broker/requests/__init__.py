"""Requests: the table of routes, the guards before a handler, and the shortcut of plain sends."""
