"""Views: tables for people and JSON for programs, shared by `pyromq admin` and the commands in words."""
