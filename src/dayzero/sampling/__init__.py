"""From logits to tokens: a pure function of one row's logits and of its request, whatever else is in the batch.

noise       counter-based random numbers (Philox): the noise of any token of any request, in any order
penalties   what a request does to its logits before anything is drawn
survivors   which tokens may be drawn: temperature, top-k, top-p and min-p
sampler     a token per row: `Row`, `sample`
reference   the slow and obvious sampler, the oracle of the fast ones
logprobs    raw model log-probabilities, ranks and alternatives
answers     what a step asks of rows of logits: tokens and log-probabilities together
native      the same by native code
"""
