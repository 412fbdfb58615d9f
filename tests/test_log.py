import json
import logging
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from dayzero import log


def line_of(record: logging.LogRecord) -> dict[str, object]:
    return json.loads(log.JsonFormatter().format(record))


def test_an_event_is_one_json_object_with_its_fields() -> None:
    record = logging.getLogger("dayzero.x").makeRecord(
        "dayzero.x", logging.INFO, "f", 1, "replica up", (), None, extra={"replica": 3, "load_s": 0.5}
    )
    line = line_of(record)
    assert (line["event"], line["level"], line["replica"], line["load_s"]) == ("replica up", "info", 3, 0.5)
    assert datetime.fromisoformat(str(line["time"])).utcoffset() == timedelta(0)


def test_the_text_of_an_exception_stays_out() -> None:
    try:
        raise ValueError("what a client sent")
    except ValueError:
        record = logging.LogRecord("dayzero", logging.ERROR, "f", 1, "lost", (), sys.exc_info())
    line = line_of(record)
    assert line["exception"] == "ValueError"
    assert str(line["at"]).startswith("test_log.py:")
    assert "client" not in json.dumps(line)


def test_a_field_that_is_no_json_is_written_as_text() -> None:
    record = logging.makeLogRecord({"name": "dayzero", "msg": "x", "where": {1, 2}.__class__})
    assert "set" in str(line_of(record)["where"])


def test_of_a_library_only_the_first_line_is_repeated() -> None:
    record = logging.getLogger("asyncio").makeRecord(
        "asyncio", logging.ERROR, "f", 1, "task lost\n%s", ("what a client sent",), None, extra={"more": "of it"}
    )
    line = line_of(record)
    assert (line["event"], line["logger"]) == ("task lost", "asyncio")
    assert line.keys() == {"time", "level", "event", "logger"}


@pytest.fixture
def _restored() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (log.OURS, *log.LIBRARIES)]
    before = [(list(logger.handlers), logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, values in zip(loggers, before, strict=True):
        logger.handlers[:], logger.level, logger.propagate = values


@pytest.mark.usefixtures("_restored")
def test_configure_replaces_its_own_handler(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAYZERO_LOG", "warning")
    log.configure()
    log.configure()
    logging.getLogger("dayzero.x").warning("once")
    logging.getLogger("dayzero.x").info("never")
    assert [json.loads(text)["event"] for text in capsys.readouterr().err.splitlines()] == ["once"]


@pytest.mark.usefixtures("_restored")
def test_libraries_warn_in_the_same_form_and_are_silent_below(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAYZERO_LOG", "debug")
    log.configure()
    logging.getLogger("uvicorn.error").warning("odd")
    logging.getLogger("asyncio").debug("details")
    assert [json.loads(text)["event"] for text in capsys.readouterr().err.splitlines()] == ["odd"]
