"""Strings to tokens and back. Knows no models, no HTTP.

source       what a checkpoint says about its tokenizer
tokenizer    encode, decode, bytes of each token
pretokenizer the pre-tokenizers that a GGUF names
chat         chat templates, in a sandbox
detokenizer  incremental text from tokens: any split of the tokens gives the same text
stop         stop strings across any border
"""
