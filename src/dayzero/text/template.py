"""Chat templates: a conversation becomes the text that the model was trained on. Knows no tokens."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime

from jinja2 import Template, TemplateError, TemplateSyntaxError, meta, nodes

from dayzero.errors import CheckpointError, RequestError
from dayzero.text.conversation import Conversation, Rendering
from dayzero.text.sandbox import MAX_TEXT_CHARS, Raised, TemplateEnvironment
from dayzero.text.veil import Veil

_MAX_TEMPLATE_CHARS = 1_000_000
_MAX_MESSAGE_CHARS = 500
# Appended to a final message that is to be continued; the rendering is cut there. Its last character is a blank: if
# the template trimmed it away, it trims contents, and so must we.
_CUT = "\U0010fffd\U0010fffc "

# Everything that evaluating an expression can raise; what else comes is our bug.
_TEMPLATE_FAILURES = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


class ChatTemplate:
    """A compiled template in a sandbox. Time is not bounded here: see `text.rendering` for servers."""

    def __init__(
        self, source: str, named_tokens: Mapping[str, str], *, now: Callable[[], datetime] = datetime.now
    ) -> None:
        """Raises CheckpointError if the source is not a template."""
        if len(source) > _MAX_TEMPLATE_CHARS:
            raise CheckpointError(f"chat template too long: {len(source)} characters (limit: {_MAX_TEMPLATE_CHARS})")
        environment = TemplateEnvironment(now)
        try:
            parsed = environment.parse(source)
            self._template: Template = environment.from_string(parsed)
            self._wants_tools_in_message = _wants_tools_in_message(parsed)
        except TemplateSyntaxError as error:
            raise CheckpointError(
                f"chat template does not parse: {error.message} (line {error.lineno})",
                hint="give another one with --chat-template",
            ) from error
        except _TEMPLATE_FAILURES as error:
            raise CheckpointError(
                f"chat template does not compile: {type(error).__name__}", hint="give another one with --chat-template"
            ) from error
        self._named_tokens = dict(named_tokens)

    def render(self, chat: Conversation) -> str:
        """Raises RequestError with the template's message."""
        try:
            return self._render(chat)
        except Raised as error:
            raise RequestError(str(error)[:_MAX_MESSAGE_CHARS], param="messages") from error
        except _TEMPLATE_FAILURES as error:
            reason = f"{type(error).__name__}: {error}"[:_MAX_MESSAGE_CHARS]
            raise RequestError(f"chat template failed: {reason}", param="messages") from error

    def render_veiled(self, chat: Conversation, veil: Veil) -> Rendering:
        """Both renderings. A template that fails on veiled text gives an empty one."""
        text = self.render(chat)
        try:
            return Rendering(text, self._render(veil.conversation(chat)))
        except _TEMPLATE_FAILURES:
            return Rendering(text, "")

    def _render(self, chat: Conversation) -> str:
        messages = _with_tools(chat) if self._wants_tools_in_message and chat.tools else chat.messages
        if chat.continue_final_message:
            final = messages[-1]
            messages = [*messages[:-1], {**final, "content": f"{final['content']}{_CUT}"}]
        chunks: list[str] = []
        size = 0
        for chunk in self._template.generate(
            **self._named_tokens,
            **chat.variables,
            messages=messages,
            tools=chat.tools,
            add_generation_prompt=chat.add_generation_prompt,
        ):
            size += len(chunk)
            if size > MAX_TEXT_CHARS:
                raise ValueError(f"rendering too long (limit: {MAX_TEXT_CHARS} characters)")
            chunks.append(chunk)
        text = "".join(chunks)
        return _up_to_cut(text) if chat.continue_final_message else text


def _wants_tools_in_message(parsed: nodes.Template) -> bool:
    """Whether a template reads the tools of a message, as Phi-4-mini's does, and not those beside the messages."""
    if "tools" in meta.find_undeclared_variables(parsed) or any(
        _is_tools(loop.iter) for loop in parsed.find_all(nodes.For)
    ):
        return False  # a list is looked for
    return any(map(_is_tools, parsed.find_all((nodes.Getattr, nodes.Getitem))))


def _is_tools(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        return bool(node.arg.value == "tools")
    return isinstance(node, nodes.Getattr) and node.attr == "tools"


def _with_tools(chat: Conversation) -> list[dict[str, object]]:
    """The messages with the functions as JSON in a system message, which comes first."""
    written = json.dumps([tool["function"] for tool in chat.tools or ()], ensure_ascii=False)
    if chat.messages[0]["role"] == "system":
        return [{**chat.messages[0], "tools": written}, *chat.messages[1:]]
    return [{"role": "system", "content": "", "tools": written}, *chat.messages]


def _up_to_cut(text: str) -> str:
    at = text.rfind(_CUT.strip())
    if at < 0:
        raise ValueError("the template does not show the final message, so it cannot be continued")
    return text[:at] if text.startswith(_CUT, at) else text[:at].rstrip()
