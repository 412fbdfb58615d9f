"""Offline tools, one folder each. They meet a server only through its public API, unless they say otherwise.

bench   the load generator: any OpenAI-compatible URL, and two of them side by side
"""
