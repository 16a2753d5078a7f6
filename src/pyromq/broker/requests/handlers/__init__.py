"""The handlers of requests, one file an area; each class is given just the doors and tables that it uses."""
