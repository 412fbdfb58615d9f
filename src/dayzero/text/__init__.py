"""Strings to tokens and back. Knows no models, no HTTP.

source        what a checkpoint says about its tokenizer
vocabulary    from that to the tokenizers library, and which tokens content must never become
pretokenizer  the pre-tokenizers that a GGUF names
tokenizer     encode, decode, bytes of each token
detokenizer   incremental text from tokens: any split of the tokens gives the same text
stop          stop strings across any border
collapse      whether an output has begun to repeat itself
conversation  what a client's messages and tools look like to a template
sandbox       the environment in which templates run
veil          client text made recognisable in a rendering
template      chat templates: messages to text
chat          messages to tokens
jobs          what a confined process can be asked, and its answers
confined      a process for work on what nobody has vetted
rendering     chat templates rendered there, under a time and a memory limit
"""
