"""The folder of an exported model: which of its files are replaced, and how."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from secondpass.errors import InputError


def check_differences(draft: Path, folder: Path) -> None:
    """Check that a folder's files are equal to the new ones of the same names.

    Args:
        draft: the folder with the new files.
        folder: where they are to be moved.

    Raises:
        InputError: names the first file that differs.
    """
    for path, place in _places(draft, folder).items():
        if place.exists() and not _same(path, place):
            raise InputError(
                f"{place}: exists with other content; it is replaced with --force (force=True)"
            )


def move_into(draft: Path, folder: Path, file: str, aside: Path) -> None:
    """Move complete new files into a folder. After an exception, the folder is as before.

    If only the model file is replaced, that is one step. Otherwise, the old model file is first
    moved aside, and the new one is moved last: a process that is killed meanwhile leaves a folder
    without this model file, never one with files that do not belong together.

    Args:
        draft: the new files, on the same file system.
        folder: the folder of the model, created if necessary.
        file: the path of the model file within each.
        aside: an empty folder for old files, on the same file system.
    """
    places = _places(draft, folder)
    model = draft / file
    changed = {
        path: place
        for path, place in places.items()
        if path != model and not (place.exists() and _same(path, place))
    }
    replaced = [place for place in changed.values() if place.exists()]
    if replaced and places[model].exists():
        replaced.insert(0, places[model])
    new_folders = [path for path in (folder / file).parents if not path.exists()]
    try:
        for number, place in enumerate(replaced):
            os.replace(place, aside / str(number))
        for path, place in [*changed.items(), (model, places[model])]:
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, place)
    except BaseException:
        if model.exists():  # else all are in place
            for place in changed.values():
                if place not in replaced:
                    place.unlink(missing_ok=True)
            for number, place in enumerate(replaced):
                with suppress(FileNotFoundError):  # it was not moved yet
                    os.replace(aside / str(number), place)
            for path in new_folders:
                with suppress(OSError):
                    path.rmdir()
        raise
    for suffix in ("_data", ".data"):  # weights of a larger model that was replaced
        place = folder / f"{file}{suffix}"
        if place not in places.values():
            place.unlink(missing_ok=True)


def _places(draft: Path, folder: Path) -> dict[Path, Path]:
    paths = (path for path in sorted(draft.rglob("*")) if path.is_file())
    return {path: folder / path.relative_to(draft) for path in paths}


def _same(first: Path, second: Path) -> bool:
    if first.suffix != ".json" and first.stat().st_size != second.stat().st_size:
        return False  # weights of gigabytes are not read
    contents = first.read_bytes(), second.read_bytes()
    if contents[0] == contents[1]:
        return True
    if first.suffix != ".json":
        return False
    try:
        return bool(json.loads(contents[0]) == json.loads(contents[1]))
    except ValueError:
        return False
