"""Python's documentation, cut into passages: a corpus available on every machine.

The passages come from two places that are installed with CPython. The language topics of
`help()` (`pydoc_data.topics`) give the reference text on scopes, exceptions, slices and so on.
The docstrings of the standard library give one passage, or a few, for each public module,
class, function, method and property.

Nothing is downloaded, and the result depends only on the Python version, so the corpus is the same
on every machine with the same Python.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import re
import types
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["Passage", "key", "passages"]


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage of the documentation.

    `id` is unique in the corpus. `kind` is one of `topic`, `module`, `class`, `function`,
    `method`, `property` and `object` (any other public object of a module, such as
    `typing.Optional`).
    """

    id: str
    title: str
    text: str
    kind: str


def key(passage_id: str) -> str:
    """Return the id of the whole text that a passage was cut from.

    `topic:with#2` becomes `topic:with`. Python versions differ in where a long text is cut, so
    relevance judgements are stored under this name.
    """
    return _PART.sub("", passage_id)


def passages() -> list[Passage]:
    """Return all passages, in an order that is the same on every call.

    Raises `RuntimeError` when this Python has no docstrings to read.
    """
    # `python -OO` strips the docstrings of Python code, and a build `--without-doc-strings`
    # those of C code. An incomplete corpus would silently give wrong measurements.
    if inspect.cleandoc.__doc__ is None or len.__doc__ is None:
        raise RuntimeError(
            "this Python has no docstrings, so there is nothing to search:"
            " run it without -OO and without PYTHONOPTIMIZE=2"
        )
    # Access to some names emits a warning, such as deprecated names of asyncio.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [*_topics(), *_docstrings()]
    return [part for whole in found for part in _split(whole)]


# Modules that import without side effects, are pure library code, and are in every CPython from
# 3.11 to 3.14. Missing modules are skipped (some builds have no `ssl` or `sqlite3`).
_MODULES = """
abc argparse array ast asyncio atexit base64 bisect builtins bz2 cProfile calendar cmath cmd code
codecs codeop collections collections.abc colorsys compileall concurrent.futures configparser
contextlib contextvars copy copyreg csv ctypes dataclasses datetime dbm decimal difflib dis
doctest email email.header email.headerregistry email.message email.mime.text email.parser
email.policy email.utils enum errno faulthandler filecmp fileinput fnmatch fractions ftplib
functools gc getopt getpass gettext glob graphlib gzip hashlib heapq hmac html html.parser http
http.client http.cookiejar http.cookies http.server imaplib importlib importlib.abc
importlib.machinery importlib.metadata importlib.resources importlib.util inspect io ipaddress
itertools json keyword linecache locale logging logging.config logging.handlers lzma mailbox
marshal math mimetypes mmap modulefinder multiprocessing multiprocessing.managers
multiprocessing.pool multiprocessing.shared_memory netrc numbers operator os os.path pathlib pdb
pickle pickletools pkgutil platform plistlib poplib pprint profile pstats py_compile pyclbr
pydoc queue quopri random re reprlib runpy sched secrets select selectors shelve shlex shutil
signal smtplib socket socketserver sqlite3 ssl stat statistics string stringprep struct
subprocess symtable sys sysconfig tabnanny tarfile tempfile textwrap threading time timeit
token tokenize tomllib trace traceback tracemalloc types typing unicodedata unittest
unittest.mock urllib.error urllib.parse urllib.request urllib.robotparser uuid venv warnings
wave weakref webbrowser wsgiref.handlers wsgiref.headers wsgiref.simple_server wsgiref.util
wsgiref.validate xml.dom.minidom xml.dom.pulldom xml.etree.ElementTree xml.sax xml.sax.handler
xml.sax.saxutils xml.sax.xmlreader xmlrpc.client xmlrpc.server zipapp zipfile zipimport zlib
zoneinfo
"""

# Shorter docstrings add little to the name.
_SHORTEST_DOCSTRING = 40

# Lengths in words. A passage ends at the first paragraph border after _ENOUGH_WORDS, or before a
# paragraph that would exceed _MOST_WORDS.
_ENOUGH_WORDS = 150
_MOST_WORDS = 250
_FEWEST_WORDS = 50

_PART = re.compile(r"#\d+\Z")
_PRIVATE = re.compile(r"(?:\A|\.)_")
_UNDERLINE = re.compile(r"([*=\-~^\"'])\1{2,}\Z")
# All names of `typing` with "A generic version of ..." are deprecated, too.
_DEPRECATED = re.compile(
    r"\Aa generic version of\b"
    r"|\A(?:this \w+ is )?deprecated\b|\bdeprecated alias\b|\bis deprecated,? (?:and )?use\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Section:
    """The text under one heading. `heading` is empty before the first heading."""

    heading: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Whole:
    """A text before it is cut into passages."""

    id: str
    title: str
    sections: tuple[_Section, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class _Entry:
    """A documented object under one of its names."""

    name: str
    own_name: str
    text: str
    kind: str

    def preference(self) -> tuple[bool, int, int, str]:
        """Sort key for the names of one docstring; the lowest is kept.

        Prefers the object's `__name__` (`random.getrandbits`, not `secrets.randbits`), then the
        least nested name (`random.shuffle`, not `random.Random.shuffle`), then the shortest
        (`bytes.split`, not `bytearray.split`), then the first in alphabetical order.
        """
        last = self.name.rpartition(".")[2]
        return (last != self.own_name, self.name.count("."), len(self.name), self.name)


def _topics() -> Iterator[_Whole]:
    """Yield the language topics, each section only once.

    The longest topics are chapters that repeat shorter ones: `compound` contains `with`, `try` and
    `for`. A section is kept in the shortest topic that contains it.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise RuntimeError(
            "this Python lacks `pydoc_data`, the text of its help topics: install the full"
            " standard library"
        ) from error
    seen: set[str] = set()
    kept: dict[str, tuple[str, list[_Section]]] = {}
    # If a text has two names (`if` and `else`), the name in its title comes first.
    for name in sorted(topics, key=lambda n: (len(topics[n]), f'"{n}"' not in topics[n][:80], n)):
        sections = _sections(topics[name])
        title = next((section.heading for section in sections if section.heading), name)
        for section in sections:
            body = " ".join(" ".join(section.paragraphs).split())
            if body and body not in seen:
                seen.add(body)
                kept.setdefault(name, (title, []))[1].append(section)
    for name in sorted(kept):
        title, own = kept[name]
        yield _Whole(f"topic:{name}", title, tuple(own), "topic")


def _docstrings() -> Iterator[_Whole]:
    """Yield the docstrings of the standard library, each text once, under one name."""
    best: dict[str, _Entry] = {}
    for entry in _entries():
        rival = best.get(entry.text)
        if rival is None or entry.preference() < rival.preference():
            best[entry.text] = entry
    for entry in sorted(best.values(), key=lambda entry: entry.name):
        yield _Whole(entry.name, entry.name, tuple(_sections(entry.text)), entry.kind)


def _entries() -> Iterator[_Entry]:
    """Yield everything with a docstring worth keeping, under each of its names."""
    offered: list[tuple[str, str, object]] = []
    for module_name in _MODULES.split():
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            continue
        yield from _entry(module_name, module_name.rpartition(".")[2], module, "module")
        # Built-in names have no prefix: `str.join`, not `builtins.str.join`.
        prefix = "" if module_name == "builtins" else f"{module_name}."
        offered.extend(
            (prefix + name, name, getattr(module, name, None)) for name in _public_names(module)
        )
    # A class that is public only under another name, as `socket.SocketType`, counts as private.
    public = {id(found) for _, name, found in offered if getattr(found, "__name__", "") == name}
    for full_name, name, found in offered:
        if inspect.isclass(found):
            yield from _entry(full_name, found.__name__, found, "class")
            yield from _members(full_name, found, public)
        elif callable(found):
            own_name = str(getattr(found, "__name__", name))
            shape = "function" if inspect.isroutine(found) else "object"
            yield from _entry(full_name, own_name, found, shape)


def _public_names(module: types.ModuleType) -> list[str]:
    """Return the public names of a module, without names that it imports."""
    declared = getattr(module, "__all__", None)
    if declared is not None:
        names: Iterable[str] = declared
    else:
        # C implementations are in a private module: the functions of `bisect` are in `_bisect`.
        homes = {module.__name__, f"_{module.__name__}"}
        if module is builtins:
            # The home of `open`. Other foreign names come from `site` or from tools.
            homes |= {"io", "_io"}
        names = (name for name, value in vars(module).items() if _home(value) in homes)
    return sorted(name for name in set(names) if not name.startswith("_"))


def _home(value: object) -> str | None:
    home = getattr(value, "__module__", None)
    return home if isinstance(home, str) else None


def _members(prefix: str, owner: type, public: set[int]) -> Iterator[_Entry]:
    """Yield the public methods and properties that this class defines.

    `public` has the `id()` of every object that a module defines under its `__name__`.
    """
    # `vars` and not `getattr`, which can run code and would repeat inherited methods. Members of
    # a private base are listed with the class, because they appear nowhere else.
    values: dict[str, object] = dict(vars(owner))
    inherited = [base for base in owner.__mro__[1:] if id(base) in public]
    listed = {ancestor for base in inherited for ancestor in base.__mro__}
    for base in owner.__mro__[1:]:
        hidden = base.__name__.startswith("_") or _PRIVATE.search(base.__module__)
        if hidden and base not in listed:
            values = {**vars(base), **values}
    for name, value in sorted(values.items()):
        if name.startswith("_"):
            continue
        held = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if isinstance(held, (property, functools.cached_property, types.GetSetDescriptorType)):
            yield from _entry(f"{prefix}.{name}", name, held, "property")
        elif inspect.isroutine(held):
            own_name = getattr(held, "__name__", name)
            yield from _entry(f"{prefix}.{name}", str(own_name), held, "method")


def _entry(name: str, own_name: str, value: object, kind: str) -> Iterator[_Entry]:
    """Yield an entry for the object if it has its own docstring of a sufficient length."""
    own = getattr(value, "__doc__", None)
    # `__doc__` of an instance falls back to its class, and `inspect.getdoc` to a base class; both
    # would describe another object.
    if not isinstance(own, str) or (kind != "class" and own == type(value).__doc__):
        return
    text = (inspect.getdoc(value) or "").strip()
    if len(text) >= _SHORTEST_DOCSTRING and not _DEPRECATED.search(text):
        yield _Entry(name, own_name, text, kind)


def _sections(text: str) -> list[_Section]:
    """Cut a text at its headings: a line with a line of `*`, `=`, `-` or the like under it."""
    sections: list[_Section] = []
    heading = ""
    paragraphs: list[str] = []
    for block in re.split(r"\n(?:[ \t]*\n)+", text.strip("\n")):
        first, _, rest = block.partition("\n")
        underline, _, below = rest.partition("\n")
        is_heading = first.strip() and _UNDERLINE.match(underline.strip())
        if is_heading:
            if heading or paragraphs:
                sections.append(_Section(heading, tuple(paragraphs)))
            heading, paragraphs = first.strip(), []
        paragraph = below if is_heading else block
        if paragraph.strip():
            paragraphs.append(paragraph.rstrip())
    sections.append(_Section(heading, tuple(paragraphs)))
    return sections


def _split(whole: _Whole) -> list[Passage]:
    """Cut a text into passages at paragraph borders; a short text stays one passage."""
    # Each part: the heading of its first paragraph, and its paragraphs.
    parts: list[tuple[str, list[str]]] = []
    words = 0
    for section in whole.sections:
        # A heading is a paragraph of the text, unless it is the title.
        lead = [section.heading] if section.heading not in ("", whole.title) else []
        for number, paragraph in enumerate([*lead, *section.paragraphs]):
            length = len(paragraph.split())
            # Prefer to cut before a section.
            full = words >= _ENOUGH_WORDS or (number == 0 and words >= _ENOUGH_WORDS // 2)
            if not parts or full or (words >= _FEWEST_WORDS and words + length > _MOST_WORDS):
                parts.append((section.heading, []))
                words = 0
            parts[-1][1].append(paragraph)
            words += length
    if len(parts) > 1 and words < _FEWEST_WORDS:
        _, tail = parts.pop()
        parts[-1][1].extend(tail)
    if len(parts) == 1:
        return [Passage(whole.id, whole.title, "\n\n".join(parts[0][1]), whole.kind)]
    return [
        Passage(
            f"{whole.id}#{number}",
            whole.title if heading in ("", whole.title) else f"{whole.title}: {heading}",
            "\n\n".join(paragraphs),
            whole.kind,
        )
        for number, (heading, paragraphs) in enumerate(parts, start=1)
    ]
