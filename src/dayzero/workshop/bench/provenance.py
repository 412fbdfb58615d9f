"""Which machine and which commit a result is from."""

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path


def machine() -> Mapping[str, str | int]:
    """The machine of the client, which is the server's too when the URL is local."""
    return {
        "cpu": processor(),
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


def processor() -> str:
    """The name of the processor, or as much of it as the system tells."""
    return cpuinfo("model name") or platform.processor() or platform.machine()


def cpuinfo(field: str) -> str:
    """What /proc/cpuinfo says of the first core; "" where there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(field)), "")
