"""The engine: a synchronous loop over token ids. Knows no text, no HTTP, no event loop.

request    one generation or embedding, and how far it has got
pooling    hidden states to an embedding
batch      the work of one step, and what came of it
scheduler  which tokens of which requests of an endpoint are computed next
endpoints  who gets how much of a step
runner     a batch in, tokens out: model, KV store, kernels and sampler
fake       a runner without weights
engine     the loop
machine    cores and free memory
resolve    what was asked, weighed against checkpoint and machine
divide     what each endpoint has of that
build      from what was asked to an engine with its weights loaded
process    the loop behind a channel: `python -m dayzero.engine.process`
"""
