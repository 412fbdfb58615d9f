"""The process boundary: msgspec messages over ZeroMQ, never pickle.

messages        the closed unions that cross it, and the protocol's version
channel         the engine's blocking end
async_channel   the gateway's end, for asyncio
confined        processes for work on what nobody has vetted, by Unix sockets
"""
