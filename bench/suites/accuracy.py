"""Ask servers the questions of the function calling leaderboard, and count what they call.

    python -m bench.suites.accuracy --server dayzero=http://127.0.0.1:8000 --server llama.cpp=http://127.0.0.1:8080

Every question goes to each server in turn, greedily. The figures depend on the model first: what they compare is the
servers, on the same file. `--begin "begun=<tool_call>"` sends server `begun` an answer that is begun already, for
one that lets a model write what it likes before a call that is required; several names may have one URL.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema

from bench.record import say
from bench.stored import keep, stored
from bench.suites.calls import parameters
from bench.suites.cases import ROOT, WHY_NOT, CallCase, bfcl, folder
from bench.suites.run import print_between
from bench.suites.scoring import Call, Share, difference, is_correct
from dayzero.workshop.bench.provenance import commit, machine

PART = "calls"
MAX_TOKENS = 256
TIMEOUT_S = 600.0
MARKS = ("<!-- calls: begin -->\n", "<!-- calls: end -->")


@dataclass(frozen=True, slots=True)
class Server:
    """Where it listens, and what answers begin with that are to be continued."""

    url: str
    begin: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--server", action="append", default=[], metavar="NAME=URL", help="the first is set against the rest"
    )
    parser.add_argument(
        "--choice", type=lambda names: names.split(","), default=["auto", "required"], help="tool_choice"
    )
    parser.add_argument("--begin", action="append", default=[], metavar="NAME=TEXT", help="what its answers begin with")
    parser.add_argument("--count", type=int, default=80, help="questions, taken evenly from all categories")
    parser.add_argument("--model", default="", help="what the servers serve, for the record")
    parser.add_argument("--from-results", action="store_true", help="ask nothing, print what is stored into the page")
    args = parser.parse_args()
    if not args.from_results:
        data = folder()
        if data is None:
            sys.exit(f"error: {WHY_NOT}")
        cases = slice_of(list(bfcl(data)), args.count)
        begun = dict(begin.split("=", 1) for begin in args.begin)
        urls = dict(server.split("=", 1) for server in args.server)
        servers = {name: Server(url, begun.get(name, "")) for name, url in urls.items()}
        for choice in args.choice:
            lines = ask_all(servers, cases, choice, args.model)
            for line in lines:
                say(line)
            keep(PART, lines)
    print_between(ROOT / "docs" / "quality.md", MARKS, table(stored(PART)))


def slice_of(cases: Sequence[CallCase], count: int) -> list[CallCase]:
    """The same number of each category, at even distances; questions of several turns have one here."""
    groups: dict[str, list[CallCase]] = defaultdict(list)
    for case in cases:
        groups[case.category].append(case)
    each = max(1, count // len(groups))
    return [group[i * len(group) // each] for group in groups.values() for i in range(min(each, len(group)))]


def ask_all(servers: dict[str, Server], cases: Sequence[CallCase], choice: str, model: str) -> list[dict[str, Any]]:
    """One line for each server: its verdict on each case, in the same order."""
    asked = [
        case for case in cases if case.answers or choice == "auto"
    ]  # a call that is required is never wrong to make
    verdicts: dict[str, list[dict[str, Any]]] = {name: [] for name in servers}
    for number, case in enumerate(asked):
        for name, server in servers.items():
            verdicts[name].append(verdict(case, *ask(server, case, choice)))
        sys.stderr.write(f"\r{choice} {number + 1}/{len(asked)}")
    sys.stderr.write("\n")
    return [
        {
            "bench": PART,
            "commit": commit(),
            "machine": machine(),
            "settings": {
                "measure": name,
                "session": choice,
                "model": model,
                "max_tokens": MAX_TOKENS,
                "begin": servers[name].begin,
            },
            "verdicts": found,
        }
        for name, found in verdicts.items()
    ]


def ask(server: Server, case: CallCase, choice: str) -> tuple[str, list[Call]]:
    """How the answer ended, and its calls."""
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool_name(tool["name"]),
                "description": tool.get("description", ""),
                "parameters": parameters(tool),
            },
        }
        for tool in case.tools
    ]
    begun = [{"role": "assistant", "content": server.begin}] if server.begin else []
    body = {
        "messages": [*case.question, *begun],
        "tools": tools,
        "tool_choice": choice,
        "parallel_tool_calls": "parallel" in case.category,
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
    }
    request = urllib.request.Request(
        f"{server.url}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            answer = json.load(response)["choices"][0]
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}", []
    except TimeoutError:
        return "no answer in time", []
    calls = answer["message"].get("tool_calls") or []
    return answer["finish_reason"], [call_of(call["function"]) for call in calls]


def tool_name(name: str) -> str:
    """The leaderboard's own rewriting, for servers that take OpenAI's names."""
    return name.replace(".", "_")


def call_of(function: dict[str, Any]) -> Call:
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        arguments = None
    return Call(function["name"], arguments if isinstance(arguments, dict) else None)


def verdict(case: CallCase, finish: str, calls: Sequence[Call]) -> dict[str, Any]:
    schemas = {tool_name(tool["name"]): parameters(tool) for tool in case.tools}
    answers = [(tool_name(name), wanted) for name, wanted in case.answers]
    fitting = sum(
        call.arguments is not None
        and call.name in schemas
        and jsonschema.Draft202012Validator(schemas[call.name]).is_valid(call.arguments)
        for call in calls
    )
    return {
        "case": case.name,
        "wanted": len(answers),
        "finish": finish,
        "calls": len(calls),
        "calls_that_fit": fitting,
        "correct": is_correct(calls, answers),
    }


def table(lines: Sequence[dict[str, Any]]) -> str:
    """A row for each server and tool_choice, and its difference to the first server on the same cases."""
    head = ["server", "`tool_choice`", "cases", "as wanted", "calls where one is wanted", "calls that fit their schema"]
    rows = [[*head, "less than the first by"], ["---"] * 7]
    for line in lines:
        found, choice = line["verdicts"], line["settings"]["session"]
        first = next(other for other in lines if other["settings"]["session"] == choice)
        wanting = [v for v in found if v["wanted"]]
        judged = [v["calls"] - (v["finish"] == "length" and v["calls"] > 0) for v in found]  # the last one was cut
        fitting = [min(v["calls_that_fit"], count) for v, count in zip(found, judged, strict=True)]
        rows.append(
            [
                line["settings"]["measure"],
                choice,
                str(len(found)),
                str(Share(sum(v["correct"] for v in found), len(found))),
                str(Share(sum(v["calls"] > 0 for v in wanting), len(wanting))),
                str(Share(sum(fitting), sum(judged))),
                "" if line is first else points(first["verdicts"], found),
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def points(first: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> str:
    mean, low, high = difference([v["correct"] for v in first], [v["correct"] for v in other])
    return f"{100 * mean:.0f} points ({100 * low:.0f} to {100 * high:.0f})"


if __name__ == "__main__":
    main()
