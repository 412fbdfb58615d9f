"""Progress bars for downloads and loading, on stderr."""

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bars:
    """A bar for each stage that reports; nothing is drawn where stderr is not a terminal.

    The library that draws is imported at the first report: a server spawns its engine before that.
    """

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()  # several files are fetched at once

    def __call__(self, stage: str, done: int, total: int) -> None:
        """`total` 0: not known yet."""
        if not sys.stderr.isatty():
            return
        with self._lock:
            if self._progress is None:
                self._progress = _started()
            if stage not in self._tasks:
                self._tasks[stage] = self._progress.add_task(stage, total=total or None)
            self._progress.update(self._tasks[stage], completed=done, total=total or None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


def _started() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.start()
    return progress
