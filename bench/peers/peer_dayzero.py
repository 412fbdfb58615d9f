"""dayzero as a peer, in process. `options` are those of `LLM`: precision, dtype, kernels."""

from collections.abc import Mapping
from typing import Any

from protocol import Prompts, serve

from dayzero import LLM
from dayzero.version import __version__


class Dayzero:
    has_prefix_cache = True

    def load(self, model: str, threads: int, options: Mapping[str, Any]) -> str:
        self.llm = LLM(model, offline=True, threads=threads, **options)
        return __version__

    def generate(self, prompts: Prompts, output_tokens: int) -> int:
        found = self.llm.generate(prompt_token_ids=prompts, max_tokens=output_tokens, ignore_eos=True, temperature=0.0)
        return sum(len(result.token_ids) for result in found)


if __name__ == "__main__":
    serve(Dayzero())
