"""KV memory: who holds which block, which prefixes are known, and the tensors themselves.

groups   what kind of KV a model's layers keep, and how many bytes
blocks   reference counts of a fixed set of blocks
radix    which prefixes have their KV in a pool
cache    the two together, for all groups of a model: what the scheduler talks to
store    the tensors
"""
