"""Model families: one readable file each, pure functions of weights, step and KV.

step       a batch as tensors: all that a model sees beside its weights and the KV
family     what a family declares, and what its tensors must look like
layers     the few parts that families share
llama qwen2 qwen3 gemma3
registry   the families that are known
loader     a checkpoint's tensors, every one accounted for, into weights
"""
