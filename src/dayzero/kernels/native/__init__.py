"""C++ kernels, and the step recorded once for them.

extension   the compiled module, or why there is none
recorder    a model's forward pass as a list of ops over symbols
program     that list as a native program: buffers, addresses, replay
vocabulary  tokens and log-probabilities of the logits that come out
"""
