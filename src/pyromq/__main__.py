"""`python -m pyromq` is `pyromq`."""

from pyromq.cli.handover import serve_handed

if not serve_handed():
    from pyromq.cli.main import main

    main()
