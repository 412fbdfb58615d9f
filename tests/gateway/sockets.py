"""HTTP by hand, for what no client library would send."""

import contextlib
import json
import socket
from collections.abc import Iterator


def request(body: object, *, path: str = "/v1/chat/completions") -> bytes:
    data = json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (path.encode(), len(data), data)


@contextlib.contextmanager
def connection(address: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=30) as client:
        yield client


def read_until(client: socket.socket, mark: bytes) -> bytes:
    data = b""
    while mark not in data:
        part = client.recv(65536)
        if not part:
            break
        data += part
    return data
