"""Ops: one declaration, one slow-but-obvious torch reference, any number of implementations, chosen once.

ops         the declarations: name, contract, reference, tolerance
reference   the references: they are the specification
onednn      torch's CPU kernels, called so that the bits of a row do not depend on its companions
rows        how many rows such a call may have: probed at start, never assumed
attention   which rows attend in which call, over which KV, as a function of each row's own position
registry    `select()`: the frozen table that `dayzero doctor` prints
"""
