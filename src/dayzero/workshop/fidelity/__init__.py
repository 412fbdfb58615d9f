"""How far a served distribution is from the golden one: teacher-forced, over the whole vocabulary, by document.

    passages -> scorer (golden, served ones) -> divergence -> measure -> estimate

It loads models in its own process and drives them below the sampler, so it needs torch and no server.

passages    texts -> token ids of a bounded length; what was cut from one document keeps its name
scorer      a configuration -> logits after every token of a passage, a slice of rows at a time
degrid      the weights of a checkpoint moved off the grid of its quantization, by seeded noise
regrid      weights rounded to nearest on a grid of GGUF, as stored tensors
divergence  logits -> KL and top-1 agreement of each row. Pure
measure     the golden model and others over the same passages, in step
estimate    rows by document -> means with bootstrap intervals, tails, paired differences. Pure
"""
