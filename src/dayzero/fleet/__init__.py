"""Engines as processes.

process   spawn, handshake, dispatch, death and shutdown of one engine
mailbox   what waits for the reader of one request
"""
