"""Outputs on which parsers of other servers failed, by the number under which docs/bugs.md lists them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dayzero.grammar.format import Format
from dayzero.grammar.formats.registry import FORMATS
from dayzero.grammar.tools import Tool
from tests.grammar.written import Call, written


def taking(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties}


STRING, INTEGER, OBJECT, LIST = ({"type": kind} for kind in ("string", "integer", "object", "array"))
TOOLS = {
    "weather": taking(city=STRING, days=INTEGER, near=OBJECT),
    "write_file": taking(path=STRING, content=STRING),
    "ping": taking(),
    "plan": taking(trip=OBJECT),
    "read": taking(id=STRING),
    "grep": taking(**{"-A": INTEGER, "-n": {"type": "boolean"}, "pattern": {"type": ["string", "null"]}}),
    "todo": taking(items=LIST),
    "set": taking(value={"anyOf": [OBJECT, STRING]}),
    "run": taking(arguments=OBJECT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """One output, and what it says.

    broken   the call that the output breaks off, and as far as they came its arguments, as JSON
    """

    number: int
    about: str
    format: Format
    output: str
    calls: Sequence[Call] = ()
    text: str = ""
    reasoning: str = ""
    broken: tuple[str, str] | None = None
    starts_in_reasoning: bool = False
    tools: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: TOOLS)

    def __str__(self) -> str:
        return f"B{self.number}-{self.format.name}-{self.about}"

    def offered(self) -> list[Tool]:
        return [Tool(name, parameters) for name, parameters in self.tools.items()]


HERMES, CODER, LLAMA, PYTHONIC = (FORMATS[name] for name in ("hermes", "qwen3-coder", "llama3-json", "pythonic"))
GLM, KIMI, DSML, MINIMAX = (FORMATS[name] for name in ("glm", "kimi-k2", "deepseek-v3.2", "minimax-m2"))
GEMMA, HARMONY, MISTRAL, MISTRAL_JSON = (FORMATS[n] for n in ("gemma-4", "harmony", "mistral", "mistral-json"))
MINIMAX_M3 = replace(MINIMAX, name="minimax-m3", reasoning=("<mm:think>", "</mm:think>"))
MARK = DSML.tokens[0]
PARAMETERLESS = [HERMES, CODER, GLM, KIMI, DSML, MINIMAX, GEMMA, MISTRAL_JSON, FORMATS["deepseek-v3.1"]]

KOELN = Call("weather", {"city": "Köln"})
PING = Call("ping", {})
SMILE = Call("read", {"id": "😀"})
NESTED = Call("plan", {"trip": {"from": {"city": "Köln"}, "stops": [1, {"x": []}], "to": {"a": {"b": {}}}}})
WRITE = Call("write_file", {"path": "/tmp/a b.txt", "content": "one\ntwo\n"})
LARGE = Call("todo", {"items": [{"id": n, "done": n % 2 == 0, "tags": ["a", ["]"]]} for n in range(40)]})


def hermes(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def coder(name: str, *pairs: tuple[str, str]) -> str:
    said = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in pairs)
    return f"<tool_call>\n<function={name}>\n{said}</function>\n</tool_call>"


def dsml(name: str, *pairs: tuple[str, bool, str]) -> str:
    said = "".join(
        f'<{MARK}parameter name="{key}" string="{str(is_string).lower()}">{value}</{MARK}parameter>\n'
        for key, is_string, value in pairs
    )
    call = f'<{MARK}invoke name="{name}">\n{said}</{MARK}invoke>'
    return f"<{MARK}function_calls>\n{call}\n</{MARK}function_calls>"


def calls_of(number: int, form: Format, *calls: Call, about: str = "calls") -> Bug:
    """Calls as the format's model writes them, and nothing else."""
    return Bug(number=number, about=about, format=form, output=written(form, calls), calls=calls)


TAGS = "<a></parameter> b </invoke>\n</parameter>"  # within a file's content
PAIR = r'{"id": "\ud83d\ude00"}'
PAIR_AT = hermes("read", PAIR).index("\\u")
SENTENCE = "A parameter ends with </parameter> here."

BUGS = [
    calls_of(1, HERMES, NESTED),
    calls_of(2, LLAMA, Call("weather", {"city": "San Francisco", "days": 3}), PING),
    calls_of(3, HERMES, KOELN, WRITE),
    Bug(
        number=4,
        about="text and two calls",
        format=HERMES,
        output="Let me see.\n" + written(HERMES, [KOELN, PING]),
        calls=[KOELN, PING],
        text="Let me see.\n",
    ),
    *(
        Bug(
            number=5,
            about="no arguments, then text",
            format=form,
            output=written(form, [PING]) + "\nDone [1] {2}.",
            calls=[PING],
            text="\nDone [1] {2}.",
        )
        for form in PARAMETERLESS
    ),
    calls_of(6, CODER, WRITE),
    calls_of(7, CODER, WRITE, KOELN, about="two calls"),
    calls_of(8, HERMES, WRITE, about="all arguments at once"),
    Bug(
        number=9,
        about="text before and after",
        format=HERMES,
        output="a < b <tool\n" + written(HERMES, [KOELN]) + " and <tool",
        calls=[KOELN],
        text="a < b <tool\n and <tool",
    ),
    calls_of(10, HERMES, Call("read", {"id": "a"}), Call("read", {"id": "b"}), about="one tool twice"),
    Bug(
        number=11,
        about="the last of many tools",
        format=HERMES,
        output=written(HERMES, [Call("tool23", {"id": n}) for n in range(3)]),
        calls=[Call("tool23", {"id": n}) for n in range(3)],
        tools={f"tool{n}": taking(id=INTEGER) for n in range(24)},
    ),
    Bug(
        number=12,
        about="an unknown tool between two",
        format=HERMES,
        output=hermes("ping", "{}") + hermes("bogus", '{"a": 1}') + hermes("ping", "{}"),
        calls=[PING, PING],
        text=hermes("bogus", '{"a": 1}'),
    ),
    calls_of(13, HERMES, Call("write_file", {"content": "a </tool_call> b <tool_call>"}), about="markers in a string"),
    calls_of(13, GLM, Call("write_file", {"content": "a </tool_call> b <tool_call>"}), about="markers in a string"),
    calls_of(14, CODER, Call("write_file", {"content": SENTENCE}), about="its own closing tag"),
    calls_of(14, CODER, Call("write_file", {"content": TAGS + "\n x", "path": "a"}), about="tags"),
    calls_of(14, MINIMAX, Call("write_file", {"content": SENTENCE, "path": "a"}), about="its own closing tag"),
    calls_of(14, GLM, Call("write_file", {"content": "</arg_value> <arg_key"}), about="its own closing tag"),
    Bug(number=15, about="on one line", format=GLM, output="<tool_call>ping</tool_call>", calls=[PING]),
    Bug(
        number=16,
        about="the value's opening tag is missing",
        format=GLM,
        output="<tool_call>weather<arg_key>city</arg_key>New York</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value></tool_call>",
        calls=[Call("weather", {"city": "New York", "days": 3})],
    ),
    Bug(
        number=17,
        about="a stray closing tag",
        format=GLM,
        output="<tool_call>ping</arg_value></tool_call>",
        text="<tool_call>ping</arg_value></tool_call>",
    ),
    *(calls_of(18, form, Call("read", {"id": "123_456"}), about="digits") for form in (CODER, GLM, PYTHONIC, GEMMA)),
    Bug(
        number=18,
        about="bare",
        format=GEMMA,
        output="<|tool_call>call:read{id:1_2}<tool_call|>",
        calls=[Call("read", {"id": "1_2"})],
    ),
    Bug(
        number=19,
        about="wrapped once more",
        format=DSML,
        output=dsml("weather", ("arguments", False, '{"city": "Köln", "days": 2}')),
        calls=[Call("weather", {"city": "Köln", "days": 2})],
    ),
    Bug(
        number=19,
        about="a parameter of that name",
        format=DSML,
        output=dsml("run", ("arguments", False, '{"a": 1}')),
        calls=[Call("run", {"arguments": {"a": 1}})],
    ),
    Bug(
        number=19,
        about="beside others it is no wrapper",
        format=DSML,
        output=dsml("weather", ("input", False, '{"a": 1}'), ("city", True, "5")),
        calls=[Call("weather", {"input": {"a": 1}, "city": "5"})],
    ),
    Bug(number=19, about="the beginning of a marker at the end", format=DSML, output="1 < 2 <", text="1 < 2 <"),
    Bug(
        number=20,
        about="a type that is a list",
        format=CODER,
        output=coder("grep", ("pattern", "a << b")),
        calls=[Call("grep", {"pattern": "a << b"})],
    ),
    Bug(number=20, about="shifts", format=CODER, output="x = a << b <<", text="x = a << b <<"),
    *(calls_of(21, form, LARGE, about="a large array") for form in (CODER, DSML, GLM, HERMES)),
    calls_of(22, CODER, Call("set", {"value": {"a": {"b": [1]}}}), about="an object"),
    Bug(
        number=23,
        about="words",
        format=GEMMA,
        output="<|tool_call>call:plan{trip:{n:5,x:-1.5,yes:true,no:false,none:null}}<tool_call|>",
        calls=[Call("plan", {"trip": {"n": 5, "x": -1.5, "yes": True, "no": False, "none": None}})],
    ),
    calls_of(24, CODER, Call("grep", {"-A": 3, "-n": True, "pattern": "x"}), about="keys with hyphens"),
    calls_of(25, KIMI, Call("write_file", {"content": "x" * 9000}), about="nine thousand characters"),
    Bug(
        number=25,
        about="an id over lines, text before, two calls",
        format=KIMI,
        output="Well.<|tool_calls_section_begin|><|tool_call_begin|>\nfunctions.weather:0\n<|tool_call_argument_begin|>\n"
        '{"city": "Köln"}<|tool_call_end|><|tool_call_begin|>functions.ping:1<|tool_call_argument_begin|>{}'
        "<|tool_call_end|><|tool_calls_section_end|>",
        calls=[KOELN, PING],
        text="Well.",
    ),
    Bug(
        number=26,
        about="a section within thoughts",
        format=KIMI,
        output="I need the weather." + written(KIMI, [KOELN]),
        calls=[KOELN],
        reasoning="I need the weather.",
        starts_in_reasoning=True,
    ),
    *(
        Bug(
            number=26,
            about=f"a section in the singular, {about}",
            format=KIMI,
            output=before + written(KIMI, [KOELN, PING]).replace("calls_section", "call_section") + after,
            calls=[KOELN, PING],
            text=after,
            reasoning=before.removeprefix("<think>").removesuffix("</think>"),
        )
        for about, before, after in (
            ("within thoughts", "<think>I need the weather.", ""),
            ("behind thoughts, then text", "<think>I need the weather.</think>", "Done."),
        )
    ),
    calls_of(29, MISTRAL, KOELN, PING),
    Bug(
        number=29,
        about="no marker before the arguments",
        format=MISTRAL,
        output='[TOOL_CALLS]weather{"city": "Köln"}',
        calls=[KOELN],
    ),
    calls_of(29, MISTRAL_JSON, KOELN, PING),
    calls_of(30, HERMES, NESTED, PING, about="nested objects"),
    calls_of(31, HERMES, Call("weather", {"days": 5}), about="an integer"),
    Bug(
        number=32,
        about="a call as JSON",
        format=PYTHONIC,
        output='{"name": "weather", "parameters": {"city": "Köln"}}',
        calls=[KOELN],
    ),
    Bug(
        number=32,
        about="a call as JSON behind a marker",
        format=PYTHONIC,
        output='<|python_start|>{"name": "weather", "parameters": {"city": "Köln"}}<|python_end|>',
        calls=[KOELN],
    ),
    Bug(
        number=33,
        about="the recipient in the role",
        format=HARMONY,
        output='<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{"city": "Köln"}<|call|>',
        calls=[KOELN],
    ),
    Bug(
        number=33,
        about="a header without its end",
        format=HARMONY,
        output='<|channel|>commentary to=functions.weather {"city": "Köln"}<|call|>',
        calls=[KOELN],
    ),
    Bug(
        number=33,
        about="words behind the end",
        format=HARMONY,
        output="<|channel|>final<|message|>It rains.<|return|>Bye",
        text="It rains.\nBye",
    ),
    *(
        Bug(
            number=34,
            about="a call within thoughts",
            format=form,
            output="<think>I need it. " + written(form, [KOELN]),
            calls=[KOELN],
            reasoning="I need it. ",
        )
        for form in (CODER, GLM)
    ),
    Bug(number=35, about="no thoughts", format=FORMATS["deepseek-v3"], output="It rains.", text="It rains."),
    Bug(
        number=36,
        about="thoughts after a result",
        format=GEMMA,
        output="<|channel>thought\nSo it rains.<channel|>It rains.",
        text="It rains.",
        reasoning="So it rains.",
    ),
    Bug(
        number=37,
        about="markers of another model",
        format=MINIMAX_M3,
        output="<mm:think>\nhm\n</mm:think>\n\nIt rains.\n" + written(MINIMAX_M3, [KOELN]),
        calls=[KOELN],
        text="It rains.\n",
        reasoning="hm",
    ),
    Bug(
        number=38,
        about="thoughts and a call",
        format=HERMES,
        output="<think>\nhm\n</think>\n\n" + written(HERMES, [KOELN]),
        calls=[KOELN],
        reasoning="hm",
    ),
    Bug(
        number=40,
        about="a string that was cut",
        format=HERMES,
        output='<tool_call>\n{"name": "weather", "arguments": {"city": "Kö',
        broken=("weather", '{"city": "Kö'),
    ),
    *(
        Bug(
            number=43,
            about=f"{cut} characters of a pair of escapes",
            format=HERMES,
            output=hermes("read", PAIR)[: PAIR_AT + cut],
            broken=("read", PAIR[: PAIR.index("\\") + cut]),
        )
        for cut in range(13)
    ),
    Bug(number=43, about="a pair of escapes", format=HERMES, output=hermes("read", PAIR), calls=[SMILE]),
    Bug(number=43, about="a pair of escapes", format=PYTHONIC, output=r'[read(id="\ud83d\ude00")]', calls=[SMILE]),
    Bug(
        number=43,
        about="in a list",
        format=PYTHONIC,
        output=r'[todo(items=["\ud83d\ude00",])]',
        calls=[Call("todo", {"items": ["😀"]})],
    ),
    Bug(number=44, about="a marker that was cut", format=HERMES, output="See: <tool_ca", text="See: <tool_ca"),
    Bug(
        number=44,
        about="a call that was cut early",
        format=HERMES,
        output='<tool_call>\n{"na',
        text='<tool_call>\n{"na',
    ),
]
