"""Names -> workloads. A new workload is one file and one entry here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dayzero.errors import ConfigError
from dayzero.workshop.bench.workloads.agentic import Agentic
from dayzero.workshop.bench.workloads.humaneval import HumanEval
from dayzero.workshop.bench.workloads.jsonl import JsonLines
from dayzero.workshop.bench.workloads.mtbench import MTBench
from dayzero.workshop.bench.workloads.session import Workload
from dayzero.workshop.bench.workloads.shared_prefix import SharedPrefix
from dayzero.workshop.bench.workloads.synthetic import Synthetic
from dayzero.workshop.bench.workloads.writer import PromptWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """What a user may set of the workloads; each uses the few that concern it."""

    file: Path | None = None
    max_turns: int = 12
    input_tokens: int = 128
    output_tokens: int = 128
    spread: float = 0.0
    num_groups: int = 8
    prefix_tokens: int = 512
    question_tokens: int = 64

    def __post_init__(self) -> None:
        for name in ("max_turns", "input_tokens", "output_tokens", "num_groups", "prefix_tokens", "question_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: {getattr(self, name)} is below 1")
        if not 0 <= self.spread <= 1:
            raise ConfigError(f"spread: {self.spread} is not between 0 and 1")


@dataclass(frozen=True, slots=True)
class Entry:
    """`writes_prompts`: the workload makes its prompts up, and needs a writer that suits the server."""

    summary: str
    build: Callable[[WorkloadOptions, PromptWriter | None, int], Workload]
    writes_prompts: bool = False


def _jsonl(options: WorkloadOptions, _writer: PromptWriter | None, _seed: int) -> Workload:
    if options.file is None:
        raise ConfigError("workload jsonl: no file given", hint="name it with --file")
    return JsonLines(options.file)


def _synthetic(options: WorkloadOptions, writer: PromptWriter | None, seed: int) -> Workload:
    assert writer is not None
    lengths = {"input_tokens": options.input_tokens, "output_tokens": options.output_tokens}
    return Synthetic(writer, seed=seed, spread=options.spread, **lengths)


def _shared_prefix(options: WorkloadOptions, writer: PromptWriter | None, seed: int) -> Workload:
    assert writer is not None
    lengths = {"prefix_tokens": options.prefix_tokens, "question_tokens": options.question_tokens}
    return SharedPrefix(writer, seed=seed, num_groups=options.num_groups, **lengths)


WORKLOADS: Mapping[str, Entry] = {
    "humaneval": Entry("164 Python functions to complete", lambda _options, _writer, seed: HumanEval(seed=seed)),
    "mtbench": Entry("80 chats of two turns", lambda _options, _writer, seed: MTBench(seed=seed)),
    "agentic": Entry(
        "a coding agent's growing conversation",
        lambda options, _writer, _seed: Agentic(max_turns=options.max_turns),
    ),
    "shared-prefix": Entry("groups of prompts with a common beginning", _shared_prefix, writes_prompts=True),
    "synthetic": Entry("random prompts and outputs of given lengths", _synthetic, writes_prompts=True),
    "jsonl": Entry('your own file: {"prompt": ...} or {"messages": [...]} lines', _jsonl),
}


def find(name: str) -> Entry:
    if name not in WORKLOADS:
        raise ConfigError(f"unknown workload: {name}", hint=f"known: {', '.join(WORKLOADS)}")
    return WORKLOADS[name]
