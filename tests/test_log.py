import json
import logging
import sys
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
    record = logging.makeLogRecord({"msg": "x", "where": {1, 2}.__class__})
    assert "set" in str(line_of(record)["where"])


def test_configure_replaces_its_own_handler(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAYZERO_LOG", "warning")
    logger = logging.getLogger("dayzero")
    before = (list(logger.handlers), logger.level, logger.propagate)
    try:
        log.configure()
        log.configure()
        logger.warning("once")
        logger.info("never")
        assert [json.loads(text)["event"] for text in capsys.readouterr().err.splitlines()] == ["once"]
    finally:
        logger.handlers[:], logger.level, logger.propagate = before
