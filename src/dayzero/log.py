"""Logging: one JSON object a line on stderr, a fixed event name and then fields.

Prompts and outputs never appear in a log, at any level. `DAYZERO_LOG` sets the level (default: info). Of what our
libraries have to say, warnings and errors appear in the same form, without their details.
"""

import logging
import os
import sys
import time
from pathlib import Path
from types import TracebackType

import msgspec

OURS = "dayzero"
LIBRARIES = ("asyncio", "uvicorn")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """`{"time": ..., "level": ..., "event": ..., <extra fields>}`; an exception adds its type, not its text.

    The text of an exception may quote what a client sent, so only its class and place are written. So may the message
    of a library, but not in its first line.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        if record.name.partition(".")[0] == OURS:
            line.update({k: v for k, v in vars(record).items() if k not in _STANDARD})
        else:
            line["event"] = record.getMessage().partition("\n")[0]
            line["logger"] = record.name
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            line["at"] = _innermost(record.exc_info[2])
        return msgspec.json.encode(line, enc_hook=str).decode()


def _innermost(traceback: TracebackType | None) -> str:
    """File and line where the exception was raised."""
    place = "?"
    while traceback is not None:
        place = f"{Path(traceback.tb_frame.f_code.co_filename).name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def configure() -> None:
    """Send our loggers, and those of libraries that have any, to stderr. Called once, by a process's entry point."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in (OURS, *LIBRARIES):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.WARNING)
        logger.propagate = False
    logging.getLogger(OURS).setLevel(os.environ.get("DAYZERO_LOG", "info").upper())
