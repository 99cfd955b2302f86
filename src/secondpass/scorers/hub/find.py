"""Finding one of a model's files, in its folder or on the Hugging Face hub."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from secondpass.errors import ModelLoadError
from secondpass.scorers.hub.model import HubModel

Find = Callable[[str], Path | None]
"""The local path of one of the model's files, downloaded if necessary; None if it has none."""


def check_inside(model: str, name: str) -> None:
    """Refuse a path that a model's own files name and that leaves the model's folder."""
    if os.path.isabs(name) or os.path.normpath(name).split(os.sep)[0] == os.pardir:
        raise ModelLoadError(f"the model {model!r} names {name!r}, which is not in its folder")


def in_folder(folder: Path) -> Find:
    """Find the files of a model in a folder."""

    def find(name: str) -> Path | None:
        check_inside(str(folder), name)
        path = folder / name
        return path if path.is_file() else None

    return find


def find_files(source: HubModel, *, offline: bool) -> Find:
    """Find the files of a model, in its folder, on the hub, or offline in the hub's cache."""
    if source.is_local:
        return in_folder(Path(source.name))
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    def find(name: str) -> Path | None:
        check_inside(source.name, name)
        try:
            path = huggingface_hub.hf_hub_download(
                source.name,
                name,
                revision=source.revision,
                cache_dir=source.cache,
                token=source.token,
                local_files_only=offline,
            )
        except LocalEntryNotFoundError:
            if not offline:  # the hub stopped answering, so the model may have the file
                raise
            return None
        except EntryNotFoundError:
            return None
        return Path(path)

    return find
