"""transformers as a peer: `generate` in bfloat16, prompts of one length as a static batch, no cache across calls."""

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from protocol import Prompts, serve


class Transformers:
    has_prefix_cache = False

    def load(self, model: str, threads: int, options: Mapping[str, Any]) -> str:  # noqa: ARG002 - it has none
        torch.set_num_threads(threads)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16).eval()
        return transformers.__version__

    def generate(self, prompts: Prompts, output_tokens: int) -> int:
        inputs = torch.tensor(prompts)
        with torch.inference_mode():
            found = self.model.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                max_new_tokens=output_tokens,
                min_new_tokens=output_tokens,
                do_sample=False,
                pad_token_id=0,
            )
        return (found.shape[1] - inputs.shape[1]) * len(prompts)


if __name__ == "__main__":
    serve(Transformers())
