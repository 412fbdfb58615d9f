"""Offline tools, one folder each. They meet a server only through its public API, unless they say otherwise.

bench     the load generator: any OpenAI-compatible URL, and two of them side by side
fidelity  how far the next-token distribution of a configuration is from the float32 model's; runs models in process
"""
