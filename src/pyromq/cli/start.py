"""First steps of the program: Ctrl-C ends it without a trace, also while modules are still imported."""

import signal


class _Interrupts:
    are_fatal = False


def main() -> None:
    """Run the program."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Nothing is open yet: the process just ends, as programs do that know nothing of Ctrl-C.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _Interrupts.are_fatal = True
    from pyromq.cli.program import main as run_command

    run_command()


def imported() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on: all is imported, and things will be open."""
    if _Interrupts.are_fatal:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _Interrupts.are_fatal = False
