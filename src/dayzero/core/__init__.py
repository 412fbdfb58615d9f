"""The vocabulary that both halves share: pure Python, no I/O, no tensors.

sampling   what a client may ask of the sampler, and the bounds of each value
events     what an engine says about a request
pooling    how a text becomes one vector
prefix     keys of KV blocks
spec       what the user asked of an engine, and what was decided
shares     how endpoints divide what a server has
"""
