"""`pyromq run`: the handlers of an application as a service."""
