"""Schemathesis against a server over a socket: requests made from its description, and against it, to every operation.

It runs in a process and a folder of its own, so it leaves nothing behind. What it checks is in `schemathesis.toml`.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

pytest.importorskip("schemathesis", reason="the clients have an environment of their own: make clients")

from dayzero.gateway.openapi import OPERATIONS
from dayzero.grammar.formats.registry import FORMATS
from tests.gateway.stand import Stand, run_live, says, stand

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

CONFIG = Path(__file__).with_name("schemathesis.toml")
KEYS = {"first": "sk-first", "second": "sk-second"}


@dataclass(frozen=True)
class Run:
    """What Schemathesis says of a run, and the server afterwards."""

    report: dict[str, Any]
    output: str
    stand: Stand
    client: httpx.Client


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("schemathesis")
    auth = [
        {"name": name, "fixedHeaders": [{"name": "Authorization", "value": f"Bearer {key}"}]}
        for name, key in KEYS.items()
    ]
    (folder / "keys.json").write_text(json.dumps({"auth": auth}))
    here = stand(
        says("hello there", per_event=3),
        tool_format=FORMATS["hermes"],
        api_keys=tuple(KEYS.values()),
        store_responses=True,
    )
    with run_live(here) as (host, port), httpx.Client(base_url=f"http://{host}:{port}") as client:
        client.headers["x-api-key"] = KEYS["first"]
        (folder / "openapi.json").write_bytes(client.get("/openapi.json").content)
        command = ["--config-file", str(CONFIG), "run", "openapi.json", "--url", str(client.base_url), "--no-color"]
        done = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", *command, "--report", "json", "--report-json-path", "report"],
            check=False,
            capture_output=True,
            encoding="utf-8",
            timeout=240,
            cwd=folder,
        )
        report = json.loads((folder / "report").read_bytes())
        yield Run(report, done.stdout + done.stderr, here, client)


def test_no_answer_is_at_fault(run: Run) -> None:
    assert (run.report["exit_code"], run.report["failures"], run.report["errors"]) == (0, [], []), run.output


def test_every_operation_is_tested_in_every_phase(run: Run) -> None:
    operations = run.report["operations"]
    described = len(OPERATIONS)
    assert (operations["total"], operations["selected"], operations["tested"]) == (described,) * 3
    assert {phase["status"] for phase in run.report["phases"].values()} == {"success"}
    assert run.report["test_cases"]["generated"] > 3000


def test_every_operation_that_can_succeed_has(run: Run) -> None:
    requests = samples(run, "dayzero_requests_total")
    answered = {(labels["route"].replace(":path", ""), labels["status"]) for labels, _ in requests}
    assert answered >= {(path, "200") for (_, path), operation in OPERATIONS.items() if operation.answer is not None}


def test_the_server_lives_and_holds_nothing(run: Run) -> None:
    assert samples(run, "dayzero_requests_in_flight") == [({}, 0.0)]
    assert run.stand.replica.running == {}
    question = [{"role": "user", "content": "hi"}]
    completion = run.client.post("/v1/chat/completions", json={"messages": question}).json()
    assert completion["choices"][0]["message"]["content"] == "hello there"


def samples(run: Run, name: str) -> list[tuple[dict[str, str], float]]:
    """Labels and value of each sample of a metric."""
    families = text_string_to_metric_families(run.client.get("/metrics").text)
    return [(sample.labels, sample.value) for family in families for sample in family.samples if sample.name == name]
