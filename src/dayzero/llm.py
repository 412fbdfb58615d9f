"""The in-process Python API: the same engine and the same text as the server, without processes or HTTP.

    llm = LLM()
    llm.generate(["The capital of France is"], max_tokens=8, temperature=0)[0].text

One `LLM` belongs to one thread. Requests that are given together, and streams that are read alternately, are batched.
"""

import operator
import secrets
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack, get_args

from dayzero.checkpoint.locate import locate
from dayzero.checkpoint.open import open_checkpoint
from dayzero.clock import SystemClock
from dayzero.core import constraint
from dayzero.core.constraint import Constraint
from dayzero.core.events import Logprob, RequestId, TokenEvent
from dayzero.core.pooling import Pooling
from dayzero.core.sampling import SamplingParams, check_prompt
from dayzero.core.spec import EngineConfig
from dayzero.engine.build import build_engine
from dayzero.errors import RequestError
from dayzero.gateway.config import Limits
from dayzero.gateway.embedding import check_dimensions, check_input, numbers, shortened
from dayzero.gateway.fields import GenerationFields, resolve_max_tokens, sampling_params, terms_of
from dayzero.gateway.parse import FieldRules, to_struct
from dayzero.gateway.stream import ChoiceStream, Delta, StreamRules, failure_of
from dayzero.gateway.structured import structured_of
from dayzero.grammar.answer_constraint import plain_constraint
from dayzero.grammar.checker import Checker
from dayzero.grammar.wanted import GrammarWanted
from dayzero.text.chat import encode_chat
from dayzero.text.conversation import conversation
from dayzero.text.template import ChatTemplate
from dayzero.text.tokenizer import Tokenizer
from dayzero.wire.messages import EMBEDS, Submit

DEFAULT_MAX_TOKENS = 256
MAX_SUBMITTED = 1024  # requests with the engine, whose own queue is bounded; the others wait here

Messages = Sequence[Mapping[str, object]]
Prompt = str | Sequence[int]
Progress = Callable[[str, int, int], None]


class EngineOptions(TypedDict, total=False):
    """As the fields of `EngineConfig` of the same names."""

    max_context: int
    max_requests: int
    max_step_tokens: int
    kv_memory_bytes: int
    kv_dtype: str
    block_size: int
    threads: int
    kernels: str
    precision: str
    prefix_cache: bool


class SamplingOptions(TypedDict, total=False):
    """As the server's fields of the same names; what is not given comes from the checkpoint, else is OpenAI's default.

    logprobs, prompt_logprobs   how many alternatives to report beside each token
    seed                        drawn if not given
    response_format             what the text shall be; so does `structured_outputs`
    """

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    logit_bias: dict[int, float]
    seed: int
    n: int
    stop: str | list[str]
    stop_token_ids: list[int]
    min_tokens: int
    ignore_eos: bool
    logprobs: int
    prompt_logprobs: int
    response_format: dict[str, object]
    structured_outputs: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One finished choice.

    token_ids         all that was generated; an end-of-sequence token is among them but not in `text`
    finish_reason     "stop" or "length"
    prompt_logprobs   None for the first token of the prompt
    """

    text: str
    token_ids: list[int]
    prompt_token_ids: list[int]
    finish_reason: str
    choice: int = 0
    logprobs: list[Logprob] | None = None
    prompt_logprobs: list[Logprob | None] | None = None
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    """A request on its way, and what came of it that nobody has read."""

    submit: Submit
    events: deque[TokenEvent] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A request that generates, and what becomes of its events."""

    running: _Running
    stream: ChoiceStream


class LLM:
    """A model in this process.

    model          None (the embedded one), a folder, a .gguf file or a hub id
    dtype          "bfloat16", or "float32": the golden mode
    offline        never ask the hub
    chat_template  Jinja source that replaces the checkpoint's
    Raises ConfigError or CheckpointError.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        dtype: str = "bfloat16",
        offline: bool = False,
        chat_template: str | None = None,
        progress: Progress = lambda stage, done, total: None,  # noqa: ARG005 - says nothing
        **options: Unpack[EngineOptions],
    ) -> None:
        path = locate(model, offline=offline, progress=progress)
        config = EngineConfig(model=str(path), dtype=dtype, **options)
        self._engine, self.spec = build_engine(config, SystemClock(), progress)
        checkpoint = open_checkpoint(Path(path))
        self.tokenizer = Tokenizer.from_source(checkpoint.tokenizer)
        self._generation = checkpoint.generation
        source = chat_template or checkpoint.tokenizer.chat_template
        self._template = None if source is None else ChatTemplate(source, checkpoint.tokenizer.named_tokens)
        self._salt = secrets.token_hex(8)
        self._checker: Checker | None = None
        self._running: dict[RequestId, _Running] = {}
        self._queue: dict[RequestId, Submit] = {}  # not with the engine yet, in order
        self._num_submitted = 0  # with the engine, and without a terminal event so far

    def generate(
        self,
        prompts: Prompt | Sequence[str] | None = None,
        *,
        prompt_token_ids: Sequence[Sequence[int]] | None = None,
        **options: Unpack[SamplingOptions],
    ) -> list[Result]:
        """Complete each prompt. Results come in the order of the prompts, the `n` choices of one side by side."""
        self._check_generates()
        return self._finish([self._encode(p) for p in _prompts(prompts, prompt_token_ids)], _fields(options))

    def chat(
        self, messages: Messages, *, tools: Messages | None = None, **options: Unpack[SamplingOptions]
    ) -> list[Result]:
        """Answer a conversation: one result for each of the `n` choices."""
        self._check_generates()
        return self._finish([self._encode_chat(messages, tools)], _fields(options))

    def embed(
        self,
        texts: str | Sequence[str] | None = None,
        *,
        prompt_token_ids: Sequence[Sequence[int]] | None = None,
        pooling: Pooling | None = None,
        dimensions: int | None = None,
    ) -> list[list[float]]:
        """A vector of unit length for each text, in their order: numbers as /v1/embeddings gives them.

        pooling     cls, mean or last; None: as the model says
        dimensions  the first so many numbers, of unit length again
        """
        how = self.spec.pooling if pooling is None else pooling
        if how not in get_args(Pooling):
            raise RequestError(f"no such pooling: {how}", param="pooling", hint=f"use {', '.join(get_args(Pooling))}")
        size = check_dimensions(dimensions, self.spec.embedding_size)
        encode = self.tokenizer.encode_text
        given = _prompts(texts, prompt_token_ids)
        inputs = [encode(one) if isinstance(one, str) else _token_ids(one) for one in given]
        for tokens in inputs:
            check_input(tokens, self.spec, self.spec.max_context)
        running = [_Running(self._submit(tokens, EMBEDS, pooling=how)) for tokens in inputs]
        try:
            self._enter(*running)
            return [list(numbers(shortened(self._embedding(one), size))) for one in running]
        finally:
            self._leave(*running)

    def stream(self, prompt: Prompt | Messages, **options: Unpack[SamplingOptions]) -> Iterator[Delta]:
        """Yield the text of one choice as it comes. Leaving the iterator early ends the request."""
        self._check_generates()
        tokens = self._encode_chat(prompt, None) if _is_chat(prompt) else self._encode(prompt)  # type: ignore[arg-type]
        fields = _fields(options)
        choice = self._prepared(tokens, fields, self._constraint(fields), number=0)
        try:
            self._enter(choice.running)
            while not choice.stream.is_finished:
                delta = choice.stream.push(self._next_event(choice.running))
                if delta is not None:
                    yield delta
        finally:
            self._leave(choice.running)

    def _encode(self, prompt: Prompt) -> list[int]:
        return self.tokenizer.encode_prompt(prompt) if isinstance(prompt, str) else _token_ids(prompt)

    def _encode_chat(self, messages: Messages, tools: Messages | None) -> list[int]:
        if self._template is None:
            raise RequestError(
                "the model has no chat template", param="messages", hint="pass chat_template, or use generate"
            )
        return encode_chat(self.tokenizer, self._template, conversation(messages, tools=tools))

    def _finish(self, prompts: Sequence[list[int]], fields: "_Fields") -> list[Result]:
        num_choices = terms_of(fields, Limits()).num_choices
        bound = self._constraint(fields)
        choices = [
            self._prepared(prompt, fields, bound, number=number) for prompt in prompts for number in range(num_choices)
        ]
        running = [choice.running for choice in choices]
        try:
            self._enter(*running)
            return [self._result(choice) for choice in choices]
        finally:
            self._leave(*running)

    def _constraint(self, fields: "_Fields") -> Constraint | None:
        """What binds each output. Compiled here, unconfined: the caller's own process is its own to spend."""
        structured = structured_of(fields, Limits())
        if structured is None:
            return None
        if self._checker is None:
            tokenizer = self.tokenizer.to_json()
            self._engine.learn(tokenizer)
            self._checker = Checker(tokenizer, self.spec.vocab_size, self.spec.eos_token_ids)
        wanted = structured.wanted
        if isinstance(wanted, GrammarWanted):
            wanted = GrammarWanted(self._checker.lark_of(wanted.lark, structured.param))
        bound = plain_constraint(wanted)
        self._checker.check(bound.grammar, structured.param)
        return bound

    def _check_generates(self) -> None:
        if self.spec.is_encoder:
            raise RequestError("this model makes embeddings, not text", hint="use embed")

    def _prepared(self, prompt: list[int], fields: "_Fields", bound: Constraint | None, *, number: int) -> _Choice:
        check_prompt(prompt, self.spec.vocab_size)
        terms = terms_of(fields, Limits())
        max_tokens = resolve_max_tokens(
            fields.max_tokens,
            self._generation.max_new_tokens or DEFAULT_MAX_TOKENS,
            prompt_tokens=len(prompt),
            context=self.spec.max_context,
            param="prompts",
        )
        params = sampling_params(
            fields,
            self._generation,
            seed=terms.seed,
            max_tokens=max_tokens,
            vocab_size=self.spec.vocab_size,
            logprobs=fields.logprobs,
            prompt_logprobs=fields.prompt_logprobs,
        )
        if bound is not None:
            constraint.check(bound, params, self.spec.vocab_size)
        return _Choice(
            _Running(self._submit(prompt, params, choice=number, bound=bound)),
            ChoiceStream(number, self.tokenizer, StreamRules(stops=terms.stops)),
        )

    def _submit(
        self,
        prompt: list[int],
        params: SamplingParams,
        *,
        choice: int = 0,
        bound: Constraint | None = None,
        pooling: Pooling | None = None,
    ) -> Submit:
        return Submit(
            request_id=secrets.randbits(63),
            prompt=prompt,
            params=params,
            salt=self._salt,
            policy_version=self.spec.policy_version,
            choice=choice,
            constraint=bound,
            pooling=pooling,
        )

    def _enter(self, *entering: _Running) -> None:
        for one in entering:
            self._running[one.submit.request_id] = one
            self._queue[one.submit.request_id] = one.submit

    def _next_event(self, running: _Running) -> TokenEvent:
        """The request's next event; everyone else's are kept for them."""
        while not running.events:
            with _interrupts_wait():
                self._step()
        return running.events.popleft()

    def _step(self) -> None:
        self._feed_engine()
        report = self._engine.step()
        assert report is not None, "a request without its terminal event"
        for event in report.events:
            self._num_submitted -= event.finish is not None
            owner = self._running.get(event.request_id)
            if owner is not None:
                owner.events.append(event)

    def _feed_engine(self) -> None:
        """Submit what is queued, in order, as far as an engine has places."""
        while self._queue and self._num_submitted < MAX_SUBMITTED:
            self._engine.submit(self._queue.pop(next(iter(self._queue))))
            self._num_submitted += 1

    def _embedding(self, running: _Running) -> bytes:
        event = self._next_event(running)
        if event.embedding is None:
            raise failure_of(event)
        return event.embedding

    def _result(self, choice: _Choice) -> Result:
        texts: list[str] = []
        token_ids: list[int] = []
        logprobs: list[Logprob] = []
        prompt_logprobs: list[Logprob | None] | None = None
        finish = ""
        while not choice.stream.is_finished:
            event = self._next_event(choice.running)
            delta = choice.stream.push(event)
            token_ids += event.tokens
            logprobs += event.logprobs or []
            prompt_logprobs = event.prompt_logprobs or prompt_logprobs
            if delta is not None:
                texts.append(delta.text)
                finish = delta.finish or finish
        kept = choice.stream.num_tokens  # a stop string may have ended it before the event's last token
        return Result(
            text="".join(texts),
            token_ids=token_ids[:kept],
            prompt_token_ids=choice.running.submit.prompt,
            finish_reason=finish,
            choice=choice.stream.index,
            logprobs=logprobs[:kept] or None,
            prompt_logprobs=prompt_logprobs,
            cached_tokens=choice.stream.cached_tokens,
        )

    def _leave(self, *leaving: _Running) -> None:
        """A no-op for those that have left, or never entered."""
        with _interrupts_wait():
            for one in leaving:
                self._running.pop(one.submit.request_id, None)
                if self._queue.pop(one.submit.request_id, None) is None:
                    self._engine.abort(one.submit.request_id)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block: an engine that is left in the middle of a step is of no more use.

    In the main thread, the only one that Ctrl-C interrupts, and unless it does nothing there anyway.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(signal.SIGINT, None)


class _Fields(GenerationFields, frozen=True, kw_only=True):
    """The options of a call, with their types checked."""

    logprobs: int | None = None
    prompt_logprobs: int | None = None


def _fields(options: SamplingOptions) -> _Fields:
    for name in options:
        if name not in SamplingOptions.__optional_keys__:
            raise RequestError(f"no such option: {name}", param=name)
    fields, _ = to_struct(dict(options), _Fields, FieldRules(neutral={}), strict=True)
    return fields


def _prompts(
    prompts: Prompt | Sequence[str] | None, prompt_token_ids: Sequence[Sequence[int]] | None
) -> Sequence[Prompt]:
    if (prompts is None) == (prompt_token_ids is None):
        raise RequestError("give either prompts or prompt_token_ids", param="prompts")
    if prompt_token_ids is not None:
        if not isinstance(prompt_token_ids, Iterable):
            raise _no_prompt()
        return prompt_token_ids
    if isinstance(prompts, str):
        return [prompts]
    if not isinstance(prompts, Iterable) or isinstance(prompts, bytes):
        raise _no_prompt()
    several = list(prompts)
    is_one = bool(several) and all(isinstance(token, int) and not isinstance(token, bool) for token in several)
    return [several] if is_one else several  # type: ignore[list-item, return-value]


def _token_ids(prompt: Iterable[int]) -> list[int]:
    """Plain integers of whatever counts as one, such as numpy's."""
    if isinstance(prompt, bytes):
        raise _no_prompt()
    try:
        tokens = list(prompt)
        if any(isinstance(token, bool) for token in tokens):
            raise _no_prompt()
        return [int(operator.index(token)) for token in tokens]
    except TypeError:
        raise _no_prompt() from None


def _no_prompt() -> RequestError:
    return RequestError("a prompt is a string or a list of token ids", param="prompts")


def _is_chat(prompt: object) -> bool:
    return isinstance(prompt, Sequence) and bool(prompt) and isinstance(prompt[0], Mapping)
