"""vLLM for CPU as a peer: its offline API, engine in the same process. `options`: enforce_eager."""

from collections.abc import Mapping
from typing import Any

from protocol import Prompts, serve


class VLLM:
    has_prefix_cache = True

    def load(self, model: str, threads: int, options: Mapping[str, Any]) -> str:  # noqa: ARG002 - from the environment
        import vllm  # here, since it prints while it is imported, and stdout holds replies alone

        self.sampling = vllm.SamplingParams
        self.llm = vllm.LLM(
            model=model, dtype="bfloat16", max_model_len=2048, max_num_seqs=64, disable_log_stats=True, **options
        )
        return vllm.__version__

    def generate(self, prompts: Prompts, output_tokens: int) -> int:
        params = self.sampling(temperature=0.0, max_tokens=output_tokens, ignore_eos=True, detokenize=False)
        found = self.llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], params, use_tqdm=False)
        return sum(len(result.outputs[0].token_ids) for result in found)


if __name__ == "__main__":
    serve(VLLM())
