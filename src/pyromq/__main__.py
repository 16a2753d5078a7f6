"""`python -m pyromq` is `pyromq`."""

from pyromq.cli.main import main

main()
