"""OpenVINO GenAI as a peer: its continuous batching, with prefix caching. `options`: kv_gib."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import openvino
import openvino_genai
from protocol import Prompts, serve


class OpenVINO:
    has_prefix_cache = True

    def load(self, model: str, threads: int, options: Mapping[str, Any]) -> str:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.cache_size = options["kv_gib"]
        scheduler.enable_prefix_caching = True
        scheduler.max_num_batched_tokens = 2048  # a prompt of 1,024 in one step
        scheduler.max_num_seqs = 64
        self.pipeline = openvino_genai.ContinuousBatchingPipeline(
            model,
            scheduler_config=scheduler,
            device="CPU",
            properties={"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"},
        )
        return openvino_genai.__version__

    def generate(self, prompts: Prompts, output_tokens: int) -> int:
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = output_tokens
        config.ignore_eos = True
        config.do_sample = False
        inputs = [openvino.Tensor(np.array([prompt], dtype=np.int64)) for prompt in prompts]
        found = self.pipeline.generate(inputs, [config] * len(inputs))
        return sum(len(result.m_generation_ids[0]) for result in found)


if __name__ == "__main__":
    serve(OpenVINO())
