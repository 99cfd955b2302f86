"""Selects the files of a folder to read: by patterns, and of a website only its pages."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from secondpass import InputError
from secondpass.formats.lines import AnyPath
from secondpass.settings import describe

MANIFEST = "secondpass-index.json"
"""A folder with this file is an index."""
PARTS = re.compile(r"parts-[0-9a-f]{32}")

UNFINISHED = "unfinished-vectors.npz"
"""File of an index whose build was interrupted: the vectors that it had made."""

_SITE_MARKS = frozenset({"index.html", "index.htm", "index.xhtml", "searchindex.js"})
"""A folder with one of these files is the top of a website."""
_PAGES = frozenset(
    {".html", ".htm", ".xhtml", ".md", ".markdown", ".mdown", ".mkd", ".rst", ".txt"}
)
"""Suffixes of what is read of a website; the rest are scripts, styles, data and pictures."""
_HTML = frozenset({".html", ".htm", ".xhtml"})
"""Of the same page in several forms (``a.html``, and ``a.md`` or ``a.html.md`` for language models)
that with this suffix is read."""
_NO_PAGES = ("404.html", "robots.txt", "llms*.txt")
_NO_PAGES_OF_GENERATORS = {
    "searchindex.js": (  # Sphinx
        *("_sources", "_static", "_images", "_sphinx_design_static"),
        *("genindex*.html", "py-modindex.html", "search.html"),
    ),
    "book*.js": ("print.html", "toc.html", "fonts"),  # mdBook
}
"""File at the top of a site -> what else is there that is no page: all pages in one, their
sources, indexes of words."""
_NOT_FOLLOWED = "is a link to a folder, or not a regular file"
SITE_REASON = "is no page of this website"

Entry: TypeAlias = tuple[str, Path | None, str]
"""Name, path, and problem or an empty string, of a file."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Patterns of paths relative to the source, with ``/`` as separator.

    As in a shell, ``*`` matches any characters except ``/``, ``**`` any characters, ``?`` one
    character and ``[a-z]`` one of a range. A pattern without ``/`` is compared with the name of the
    file and of every folder above it; ``drafts`` and ``drafts/`` match all files in such a folder.

    Attributes:
        include: a file is read only if one of these matches; empty: every file.
        exclude: a file is not read if one of these matches.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_patterns("include", self.include)
        _check_patterns("exclude", self.exclude)

    def has(self, path: str) -> bool:
        """Whether a file is to be read."""
        if self.include and not any(_matches(path, pattern) for pattern in self.include):
            return False
        return not any(_matches(path, pattern) for pattern in self.exclude)

    def leaves_out_folder(self, path: str) -> bool:
        """Whether a pattern excludes a folder, so that none of its files is read."""
        return any(_matches(path, pattern) for pattern in self.exclude)


def _check_patterns(name: str, patterns: Iterable[object]) -> None:
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern.strip("/"):
            what = f"must be patterns of paths, such as *.md, not {describe(pattern)}"
            raise InputError(f"{name}: {what}")


ALL = Selection()


def selection_by(include: str | Iterable[str], exclude: str | Iterable[str]) -> Selection:
    """The selection of these patterns; a string is one pattern."""
    return Selection(
        (include,) if isinstance(include, str) else tuple(include),
        (exclude,) if isinstance(exclude, str) else tuple(exclude),
    )


def selection_of(source: Mapping[str, Any]) -> Selection:
    """The selection of an index, from the ``source`` of its manifest."""
    return Selection(tuple(source.get("include", ())), tuple(source.get("exclude", ())))


def is_index(folder: AnyPath) -> bool:
    """Whether a folder is an index, or has the remains of an interrupted build."""
    folder = Path(folder)
    if (folder / MANIFEST).exists() or (folder / UNFINISHED).exists():
        return True
    try:
        return any(PARTS.fullmatch(name) for name in os.listdir(folder))
    except OSError:  # it does not exist, is a file, or cannot be read
        return False


def _no_pages(files: Sequence[str]) -> tuple[str, ...] | None:
    """Patterns of what is no page at the top of a website; None if a folder is no such top."""
    if _SITE_MARKS.isdisjoint(files):
        return None
    patterns: tuple[str, ...] = _NO_PAGES
    for mark, left_out in _NO_PAGES_OF_GENERATORS.items():
        if fnmatch.filter(files, mark):
            patterns += left_out
    return patterns


def _matches_any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def entries_of(path: Path, selection: Selection = ALL) -> Iterator[Entry]:
    """The files of a folder, sorted by name in each folder, without indexes."""
    if not path.is_dir():
        os.stat(path)  # raises if it does not exist
        yield path.name, path, "" if path.is_file() else _NOT_FOLLOWED
        return
    os.listdir(path)  # raises if the folder itself cannot be read
    unreadable: list[OSError] = []
    in_site: set[Path] = set()  # folders of websites
    for folder_name, folders, files in os.walk(path, onerror=unreadable.append):
        folder = Path(folder_name)
        inside = folder.relative_to(path)
        is_site = inside.parent in in_site and inside != inside.parent
        no_pages = None if is_site else _no_pages(files)
        is_site = is_site or no_pages is not None
        if is_site:
            in_site.add(inside)
        links = [name for name in folders if (folder / name).is_symlink()]
        chosen = [name for name in folders if name not in links]
        chosen = _folders_to_read(folder, inside, chosen, selection)
        left_out = [name for name in chosen if _matches_any(name, no_pages or ())]
        for name in left_out:
            yield f"{_printable(inside / name)}/", None, SITE_REASON
        folders[:] = [name for name in chosen if name not in left_out]  # what os.walk enters
        names = [name for name in files if selection.has((inside / name).as_posix())]
        in_html = _names_with_html(names)
        names += [name for name in links if selection.has((inside / name).as_posix())]
        for name in sorted(names):
            if name.startswith("."):
                continue
            is_copy = PurePosixPath(name).stem in in_html and not _is_html(name)
            is_page = PurePosixPath(name).suffix.lower() in _PAGES and not is_copy
            if is_site and (not is_page or _matches_any(name, no_pages or ())):
                yield _printable(inside / name), None, SITE_REASON
            else:
                yield _entry(folder / name, inside / name)
    for error in unreadable:
        printable = _printable(Path(str(error.filename)).relative_to(path))
        yield f"{printable}/", None, f"cannot be read: {error.strerror}"


def _folders_to_read(
    folder: Path, inside: Path, names: Iterable[str], selection: Selection
) -> list[str]:
    """The folders in a folder that are read, by name; ``inside`` is its path in the source."""
    chosen: list[str] = []
    for name in sorted(names):
        if name.startswith(".") or is_index(folder / name):
            continue
        if not selection.leaves_out_folder((inside / name).as_posix()):
            chosen.append(name)
    return chosen


def _names_with_html(names: Iterable[str]) -> set[str]:
    """Stems of other forms of HTML files: of ``a.html``, ``a`` and (``a.html.md``) ``a.html``."""
    stems: set[str] = set()
    for name in names:
        if _is_html(name):
            stems |= {name, PurePosixPath(name).stem}
    return stems


def _entry(file: Path, inside: Path) -> Entry:
    """The entry of a file that is selected; ``inside`` is its path in the source."""
    printable = _printable(inside)
    if printable != inside.as_posix():
        return printable, None, "has a name that is not UTF-8"
    if not file.is_file():
        return printable, None, _NOT_FOLLOWED
    return printable, file, ""


def _is_html(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in _HTML


def _printable(path: Path) -> str:
    return path.as_posix().encode("utf-8", "backslashreplace").decode()


def _matches(path: str, pattern: str) -> bool:
    parts = PurePosixPath(path).parts
    if "/" not in pattern.strip("/"):
        return any(fnmatch.fnmatchcase(part, pattern.strip("/")) for part in parts)
    # A folder that matches includes all files below it.
    wanted = PurePosixPath(pattern.strip("/")).parts
    return any(_match_parts(parts[:stop], wanted) for stop in range(1, len(parts) + 1))


def _match_parts(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    """Compare part by part; ``**`` stands for any number of parts, also none."""
    reachable = {0}  # numbers of parts that the patterns so far can match
    for pattern in wanted:
        if pattern == "**":
            reachable = set(range(min(reachable), len(parts) + 1)) if reachable else set()
        else:
            reachable = {
                index + 1
                for index in reachable
                if index < len(parts) and fnmatch.fnmatchcase(parts[index], pattern)
            }
    return len(parts) in reachable
