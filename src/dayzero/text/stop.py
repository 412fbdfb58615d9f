"""Stop strings in a stream of text.

The result does not depend on how the text was chunked: it is cut at the match that starts first, and of several
that start there, at the one that is complete first. Text is withheld only while a stop string may have begun in it.
"""

import re
from collections.abc import Sequence

from dayzero.errors import RequestError


class StopMatcher:
    """Watches one stream.

    released   characters of the stream that `push` and `finish` have returned so far: how far logprobs may go
    matched    the stop string that ended the stream, or None

    Cost of a push: one search for the stops' first characters, unless one of them is there.
    """

    def __init__(self, stops: Sequence[str], *, include_stop: bool = False) -> None:
        if not all(stops):
            raise RequestError("empty stop string", param="stop", hint="leave it out")
        self._stops = sorted(set(stops), key=len)  # at equal start the shortest is complete first
        self._include_stop = include_stop
        initials = "".join(re.escape(c) for c in sorted({stop[0] for stop in stops}))
        self._initial = re.compile(f"[{initials}]") if initials else None
        self._held = ""
        self.released = 0
        self.matched: str | None = None

    @property
    def is_stopped(self) -> bool:
        return self.matched is not None

    def push(self, text: str) -> str:
        """The text that may be shown now; nothing once stopped."""
        if self.matched is not None:
            return ""
        buffer = self._held + text if self._held else text
        begin = self._initial.search(buffer) if self._initial is not None else None
        if begin is None:
            self._held = ""
            self.released += len(buffer)
            return buffer
        cut = self._under_way(buffer, begin.start())
        match = self._earliest(buffer)
        if match is not None and match[0] <= cut:
            return self._stop(buffer, match)
        self._held = buffer[cut:]
        self.released += cut
        return buffer[:cut]

    def release(self, text: str) -> str:
        """The text, in which no stop counts, after what was withheld: none is under way any more."""
        if self.matched is not None:
            return ""
        buffer, self._held = self._held + text, ""
        self.released += len(buffer)
        return buffer

    def finish(self) -> str:
        """The rest of the text, now that no more will come."""
        if self.matched is not None:
            return ""
        buffer, self._held = self._held, ""
        match = self._earliest(buffer)
        if match is not None:
            return self._stop(buffer, match)
        self.released += len(buffer)
        return buffer

    def _under_way(self, buffer: str, start: int) -> int:
        """Where the longest suffix of the buffer starts that is a proper prefix of a stop; its end if there is none."""
        assert self._initial is not None
        start = max(start, len(buffer) - len(self._stops[-1]) + 1)
        while (begin := self._initial.search(buffer, start)) is not None:
            start = begin.start()
            suffix = buffer[start:]
            if any(len(stop) > len(suffix) and stop.startswith(suffix) for stop in self._stops):
                return start
            start += 1
        return len(buffer)

    def _earliest(self, buffer: str) -> tuple[int, str] | None:
        found = [(at, stop) for stop in self._stops if (at := buffer.find(stop)) >= 0]
        return min(found, key=lambda match: (match[0], len(match[1])), default=None)

    def _stop(self, buffer: str, match: tuple[int, str]) -> str:
        start, self.matched = match
        self._held = ""
        end = start + len(self.matched) if self._include_stop else start
        self.released += end
        return buffer[:end]
