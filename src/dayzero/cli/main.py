"""`dayzero`: the verbs, and what an error looks like."""

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
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
    app.callback()(_root)
    asked = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    for verb in [asked] if asked in VERBS else VERBS:
        app.command(verb)(getattr(import_module(f"dayzero.cli.{verb}"), verb))
    try:
        code = _exit_code(app)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        code = 130
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Taking a model down takes a second: a further Ctrl-C means the same, and does not end it by the signal.
    sys.exit(code)


def _exit_code(app: typer.Typer) -> int:
    """Run the verb; what it did not expect is told in a line or two."""
    try:
        app()
    except SystemExit as done:
        if isinstance(done.code, int):
            return done.code
        raise
    except DayzeroError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except OSError as error:  # no room, say, for what is printed
        print(f"error: {error.strerror or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    run()
