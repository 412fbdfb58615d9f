"""One file for each API.

chat          /v1/chat/completions
completions   /v1/completions
models        /v1/models
tokens        /tokenize, /detokenize
health        /health, /ready, /version, /metrics
format        values that several APIs write in the same way
"""
