"""Sockets, and nothing about messages: a server, links to other servers, and the table of requests."""
