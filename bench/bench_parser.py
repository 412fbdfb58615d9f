"""How fast one core makes server-sent events of tokens: detokenizer, parser, chat view, JSON. No engine, no sockets.

    python bench/bench_parser.py [--repeats 7]

Each output goes token by token through the stream of one choice and the format of chat chunks, as a server's does.
Tokens a second of CPU time, beside those of the bare detokenizer, and of the decoder of the `tokenizers` library, with
which other servers make text of tokens. Markers are text here: the embedded model's vocabulary has no tokens for them.
"""

import argparse
import time
from collections.abc import Callable, Sequence

from outputs import TOOLS, Output, outputs
from record import record
from tokenizers.decoders import DecodeStream

from dayzero.checkpoint.config import GenerationDefaults
from dayzero.checkpoint.locate import locate
from dayzero.checkpoint.open import open_checkpoint
from dayzero.clock import SystemClock
from dayzero.core.events import FinishReason, TokenEvent
from dayzero.core.spec import EngineConfig, FakeModel
from dayzero.engine.fake import build_fake_engine
from dayzero.gateway.config import GatewayConfig
from dayzero.gateway.constrain import Constrainer
from dayzero.gateway.endpoint import Endpoints
from dayzero.gateway.fields import terms_of
from dayzero.gateway.generate import Generator
from dayzero.gateway.metrics import Metrics
from dayzero.gateway.reading import Reader
from dayzero.gateway.service import TextService
from dayzero.gateway.stream import ChoiceStream, StreamRules
from dayzero.gateway.tools import tool_use
from dayzero.gateway.views.chat import ChatFormat, ChatRequest
from dayzero.grammar.gate import Gate
from dayzero.router.fake import FakeReplica
from dayzero.text.detokenizer import Detokenizer
from dayzero.text.tokenizer import Tokenizer

Measure = Callable[[Sequence[int]], None]


def text_service(tokenizer: Tokenizer) -> TextService:
    """Of a server that nobody asks anything."""
    clock, config = SystemClock(), GatewayConfig(served_model_name="bench")
    _, spec = build_fake_engine(EngineConfig(model="fake", fake=FakeModel()), clock)
    replica = FakeReplica(spec)
    endpoints = Endpoints.of(config, spec)
    metrics = Metrics(lambda: replica.load, endpoints.admission)
    return TextService(
        config=config,
        replica=replica,
        tokenizer=tokenizer,
        defaults=GenerationDefaults(),
        endpoints=endpoints,
        generator=Generator(replica, tokenizer, metrics, clock),
        constrainer=Constrainer(spec, Gate(tokenizer.to_json, spec.vocab_size, spec.eos_token_ids)),
        clock=clock,
    )


def chat(service: TextService, output: Output) -> Measure:
    """The events of a streamed answer, one token after the other."""
    use = tool_use(TOOLS, "auto", None, service.config.limits)
    reading = Reader(output.format, service.tokenizer).reading(use, ())
    terms = terms_of(ChatRequest(messages=[]), service.config.limits)

    def measure(tokens: Sequence[int]) -> None:
        stream = ChoiceStream(0, service.tokenizer, StreamRules(reading=reading))
        form = ChatFormat(service, terms, model="bench", is_scored=False)
        last = len(tokens) - 1
        for i, token in enumerate(tokens):
            delta = stream.push(TokenEvent(0, [token], finish=FinishReason.LENGTH if i == last else None))
            if delta is not None:
                form.chunk(delta)

    return measure


def detokenizer(tokenizer: Tokenizer) -> Measure:
    def measure(tokens: Sequence[int]) -> None:
        bare = Detokenizer(tokenizer)
        for token in tokens:
            bare.push((token,))

    return measure


def decode_stream(tokenizer: Tokenizer) -> Measure:
    raw = tokenizer._vocabulary.marked

    def measure(tokens: Sequence[int]) -> None:
        decoder = DecodeStream(skip_special_tokens=True)
        for token in tokens:
            decoder.step(raw, token)

    return measure


def tokens_per_cpu_s(measure: Measure, tokens: Sequence[int]) -> float:
    start_s = time.process_time()
    measure(tokens)
    return len(tokens) / (time.process_time() - start_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    tokenizer = Tokenizer.from_source(open_checkpoint(locate(None, offline=True, progress=lambda *_: None)).tokenizer)
    service = text_service(tokenizer)
    for output in outputs():
        tokens = tokenizer.encode(output.text, special=False)
        measures = {
            "dayzero": chat(service, output),
            "detokenizer": detokenizer(tokenizer),
            "tokenizers' DecodeStream": decode_stream(tokenizer),
        }
        samples: dict[str, list[float]] = {name: [] for name in measures}
        for repeat in range(args.repeats + 1):  # the first warms up
            for name, measure in measures.items():
                rate = tokens_per_cpu_s(measure, tokens)
                if repeat:
                    samples[name].append(rate)
        settings = {"measure": output.name, "characters": len(output.text), "tokens": len(tokens)}
        record("parser", samples, unit="tokens per CPU second", settings=settings)


if __name__ == "__main__":
    main()
