"""`python -m pyromq` is `pyromq`."""

from pyromq.cli.start import main

if __name__ == "__main__":
    main()
