"""DeepSeek V3 and R1.

    <think>…</think>
    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f
    ```json
    {…}
    ```<｜tool▁call▁end｜>…<｜tool▁calls▁end｜>

Source: the chat template of deepseek-ai/DeepSeek-V3 (with tools: vllm-project/vllm,
examples/tool_chat_template_deepseekv3.jinja).
"""

from dayzero.grammar.format import Format
from dayzero.grammar.shapes.named import Named

DEEPSEEK_V3 = Format(
    name="deepseek-v3",
    triggers=("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
    shape=Named(
        begin="<｜tool▁call▁begin｜>",
        fences=("```json", "```"),
        end="<｜tool▁call▁end｜>",
        section_ends=("<｜tool▁calls▁end｜>",),
        head="function<｜tool▁sep｜>{name}\n",
    ),
    reasoning=("<think>", "</think>"),
    forbidden=("<｜User｜>", "<｜tool▁outputs▁begin｜>", "<｜tool▁output▁begin｜>"),
    tokens=("<｜tool▁sep｜>",),
    templates=(("<｜tool▁sep｜>", "```json"),),
)
