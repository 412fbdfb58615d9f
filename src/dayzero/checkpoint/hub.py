"""Files of a Hugging Face hub repository, in the user's own hub cache.

Only what a model is made of is fetched: weights as safetensors or one GGUF file, JSON and templates, from the top of
the repository, and how its embeddings are pooled. Never pickles, never code. Every failure says what to do about it.
"""

import errno
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dayzero.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

Progress = Callable[[str, int, int], None]  # what is fetched, bytes done, bytes in all as far as known

_PATTERNS = (
    "config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json", "model-*.safetensors",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "chat_template.json",
    "modules.json", "sentence_bert_config.json", "*_Pooling/config.json",
)  # fmt: skip
_SUBFOLDERS = "*/*.safetensors"  # of other precisions and parts; a star matches a slash, too


class Hub:
    """One hub endpoint and one cache; None: the user's, as huggingface_hub finds them."""

    def __init__(self, *, endpoint: str | None = None, cache: Path | None = None) -> None:
        self._endpoint = endpoint
        self._cache = cache

    def fetch(self, repo: str, *, offline: bool, progress: Progress) -> Path:
        """The folder of a repository, or its only .gguf file where it has no safetensors."""
        folder = self._snapshot(repo, _PATTERNS, offline=offline, progress=progress)
        if any(folder.glob("*.safetensors")):
            return folder
        names = sorted(file.name for file in folder.glob("*.gguf")) if offline else self._gguf_names(repo)
        if not names:
            raise CheckpointError(
                f"no weights in {repo}: neither model.safetensors nor a .gguf file", hint="pickled weights are not read"
            )
        if len(names) > 1:
            raise ConfigError(
                f"several models in {repo}: {len(names)} .gguf files",
                hint=f"name one, as in {repo}:{names[0]} (there are {', '.join(names[:12])})",
            )
        return self.fetch_file(repo, names[0], offline=offline, progress=progress)

    def fetch_file(self, repo: str, name: str, *, offline: bool, progress: Progress) -> Path:
        """One .gguf file of a repository."""
        path = self._snapshot(repo, (name,), offline=offline, progress=progress) / name
        if not path.is_file():
            raise ConfigError(f"no such file in {repo}: {name}")
        return path

    def _snapshot(self, repo: str, patterns: tuple[str, ...], *, offline: bool, progress: Progress) -> Path:
        from huggingface_hub import snapshot_download

        with _explained(repo, offline=offline, cache=self._cache):
            folder = snapshot_download(
                repo,
                allow_patterns=list(patterns),
                ignore_patterns=[_SUBFOLDERS],
                local_files_only=offline,
                endpoint=self._endpoint,
                cache_dir=self._cache,
                tqdm_class=_bar(repo, progress),
            )
        return Path(folder)

    def _gguf_names(self, repo: str) -> list[str]:
        from huggingface_hub import HfApi

        with _explained(repo, offline=False, cache=self._cache):
            names = HfApi(endpoint=self._endpoint).list_repo_files(repo)
        return sorted(name for name in names if name.endswith(".gguf") and "/" not in name)


def is_offline() -> bool:
    """Whether the user's environment (HF_HUB_OFFLINE) keeps huggingface_hub from the network."""
    from huggingface_hub import constants

    return bool(constants.is_offline_mode())


@contextmanager
def _explained(repo: str, *, offline: bool, cache: Path | None) -> "Iterator[None]":
    """Turn what huggingface_hub raises into what the user can do."""
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError as error:
        raise ConfigError(
            f"gated model: {repo}", hint=f"accept its terms on the page of {repo}, then run `hf auth login`"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ConfigError(
            f"no such model on the hub: {repo}", hint="check the spelling; a private one needs `hf auth login`"
        ) from error
    except errors.LocalEntryNotFoundError as error:
        if offline:
            raise ConfigError(
                f"not in the local cache: {repo}", hint="fetch it once without the offline mode, or name a local folder"
            ) from error
        raise ConfigError(
            f"cannot reach the hub for {repo}", hint="check the network, or name a local folder or .gguf file"
        ) from error
    except errors.HFValidationError as error:
        raise ConfigError(f"not a hub id: {repo}", hint="it looks like organisation/name") from error
    except errors.HfHubHTTPError as error:
        raise ConfigError(f"the hub refused {repo}: status {error.response.status_code}", hint="try later") from error
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise ConfigError(f"cannot fetch {repo}: {error.strerror or type(error).__name__}") from error
        free = shutil.disk_usage(cache or Path.home()).free
        raise ConfigError(
            f"no space left on the disk while fetching {repo}: {free >> 20} MiB free",
            hint="make room, or set HF_HOME to a folder on another disk",
        ) from error


def _bar(repo: str, progress: Progress) -> type[Any]:
    """A tqdm for huggingface_hub that draws nothing and reports bytes as they reach the disk."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    class ReportingBar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # no watching thread

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            # one bar counts bytes written, another bytes received, a third whole files
            self._counts_bytes = kwargs.get("unit") == "B" and not str(kwargs.get("desc")).startswith("Download")
            super().__init__(*args, **kwargs)

        def display(self, *_: object, **__: object) -> bool:
            return True

        def clear(self, *_: object, **__: object) -> None:
            return

        def update(self, n: float | None = 1) -> bool | None:
            updated: bool | None = super().update(n)
            if self._counts_bytes:
                progress(repo, int(self.n), int(self.total or 0))
            return updated

    return ReportingBar
