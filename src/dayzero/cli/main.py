"""`dayzero`: the verbs, and what an error looks like."""

import atexit
import signal
import sys
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from dayzero.errors import DayzeroError
from dayzero.version import __version__

VERBS = ("serve", "chat", "generate", "bench", "doctor")


def _version(asked: bool) -> None:
    if asked:
        print(f"dayzero {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="print it")] = False,
) -> None:
    """From a checkpoint to a production API, fast and faithful, on the hardware you have."""


def run() -> NoReturn:
    """Entry point. Only the verb that is asked for is imported: `serve` starts its engine in a tenth of a second."""
    # Taking a model down takes a second: a further Ctrl-C then means the same, and must not end it by the signal.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
    app.callback()(_root)
    asked = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    for verb in [asked] if asked in VERBS else VERBS:
        app.command(verb)(getattr(import_module(f"dayzero.cli.{verb}"), verb))
    try:
        app()
    except DayzeroError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:  # no room, say, for what is printed
        print(f"error: {error.strerror or type(error).__name__}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # taking a model down takes a second: a further press means the same
        sys.exit(130)
    sys.exit(0)


if __name__ == "__main__":
    run()
