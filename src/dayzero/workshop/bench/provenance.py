"""Which machine and which commit a result is from."""

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path


def machine() -> Mapping[str, str | int]:
    """The machine of the client, which is the server's too when the URL is local."""
    return {
        "cpu": _cpu_model(Path("/proc/cpuinfo")) or platform.processor() or platform.machine(),
        "cores": os.cpu_count() or 1,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def commit() -> str | None:
    """The commit of the checkout that this package is imported from; None when it is installed elsewhere."""
    folder = Path(__file__).parents[2]
    command = ["git", "-C", str(folder), "log", "-1", "--format=%H", "--", "."]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def _cpu_model(cpuinfo: Path) -> str | None:
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)
