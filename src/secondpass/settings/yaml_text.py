"""YAML text to plain values, within bounds, and back.

PyYAML's safe loader silently takes the last of two equal keys. Its merge keys (``<<``) copy what
they merge, so a few hundred bytes can describe more copies than fit into memory. It reads words and
numbers as YAML 1.1 has them: ``010`` as 8, ``1:30`` as 90, ``no`` as false, and ``1e-05``, which is
how JSON writes that number, as a string. Here they are read as YAML 1.2 has them: a number is
decimal, ``0x1f`` or ``0o17``, a boolean is ``true`` or ``false``, and all else is a string. ``010``
is refused, since it means another number in each version.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secondpass.settings.messages import describe, not_utf8

if TYPE_CHECKING:
    import yaml

MAX_CHARACTERS = 256 * 1024
"""Of a text. PyYAML parses that much in a second or two."""

_MAX_BYTES = 4 * MAX_CHARACTERS

MAX_PARTS = 20_000
"""Of a value, or of all that merge keys merge. An alias repeats its part each time."""

MAX_DEPTH = 64
"""Of nested lists and mappings."""

_MAX_DIGITS = 400
"""Of a number. Converting longer ones takes quadratic time, or is an error in Python."""

_SEPARATORS = "\x85\u2028\u2029"
"""Line breaks of YAML 1.1, which PyYAML writes as they are, and reads as spaces."""

_OCTAL = "!octal"
_SCALARS = {
    "tag:yaml.org,2002:merge": (r"<<", "<"),
    "tag:yaml.org,2002:null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "tag:yaml.org,2002:int": (
        r"[-+]?(?:0|[1-9][0-9]*|0[0-9]*[89][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+",
        "-+0123456789",
    ),
    _OCTAL: (r"[-+]?0[0-7]+", "-+0"),
    "tag:yaml.org,2002:float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]{1,3})?"
        r"|[-+]?[0-9]+[eE][-+]?[0-9]{1,3}"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
}
"""Tag -> the plain scalars that have it, and their first characters. All others are strings."""


class NotYAMLError(ValueError):
    """A text is not valid YAML. The message says where and why."""


class TooLargeError(NotYAMLError):
    """A text, or the value that it describes, is too large."""


def parse(text: str) -> Any:
    """The value that ``text`` describes.

    Raises:
        NotYAMLError: it is not valid YAML, or has a key twice.
        TooLargeError: it is too large.
    """
    import yaml

    if len(text) > MAX_CHARACTERS:
        raise TooLargeError(f"is too large: more than {MAX_CHARACTERS} characters")
    try:
        value = yaml.load(text, _loader())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        message = f"not YAML{where}: {getattr(error, 'problem', None) or 'it cannot be parsed'}"
    except Exception as error:
        # PyYAML's conversions raise anything: `!!int ""` is an IndexError.
        message = f"not YAML: {type(error).__name__}"
    else:
        if (problem := too_large(value)) is not None:
            raise TooLargeError(problem)
        return value
    raise NotYAMLError(message)


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping in a file.

    Raises:
        FileNotFoundError: there is none.
        NotYAMLError: it cannot be read, is not valid YAML, or holds something else.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        # What is too large is cut, perhaps within a character; `parse` refuses it.
        text = raw.decode("utf-8", "replace" if len(raw) > _MAX_BYTES else "strict")
    except FileNotFoundError:
        raise
    except UnicodeDecodeError as error:
        raise NotYAMLError(not_utf8(path, error)) from None
    except IsADirectoryError:
        raise NotYAMLError("is a folder; name a file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise NotYAMLError(f"cannot be read: {reason}") from None
    value = parse(text)
    if not isinstance(value, dict):
        kind = "nothing" if value is None else describe(value)
        raise NotYAMLError(f"must hold a mapping, not {kind}")
    return value


def write(value: Any, *, on_one_line: bool = False) -> str:
    """The YAML of a value, in the order of its keys. :func:`parse` returns an equal value.

    ``on_one_line`` is for lists and mappings.

    Raises:
        NotYAMLError: it holds an object that YAML cannot represent.
    """
    import yaml

    form: dict[str, Any] = {"Dumper": _dumper(), "sort_keys": False}
    if on_one_line:
        form |= {"default_flow_style": True, "width": math.inf}
    try:
        text: str = yaml.dump(value, allow_unicode=True, **form)
        if any(separator in text for separator in _SEPARATORS):
            text = yaml.dump(value, **form)
    except yaml.YAMLError:
        message = "has an object that cannot be written as YAML; give plain values"
        raise NotYAMLError(message) from None
    return text


def too_large(value: Any) -> str | None:
    """What is wrong with the size of a value, which may refer to itself; None if nothing is."""
    remaining, parts = [(value, 1)], 0
    while remaining:
        parts += 1
        part, depth = remaining.pop()
        if parts > MAX_PARTS:
            return "is too large, or refers to itself"
        if not isinstance(part, Mapping | list | tuple | set | frozenset):
            continue
        items = [*part.values()] if isinstance(part, Mapping) else part
        if items and depth > MAX_DEPTH:
            return f"is nested more than {MAX_DEPTH} deep, or refers to itself"
        remaining.extend((item, depth + 1) for item in items)
    return None


@cache
def _loader() -> type[yaml.SafeLoader]:
    """The loader's class. It is defined here because importing yaml is slow."""
    import yaml

    merge = "tag:yaml.org,2002:merge"

    def error(message: str, node: yaml.Node) -> Exception:
        return yaml.constructor.ConstructorError(None, None, message, node.start_mark)

    class Loader(yaml.SafeLoader):
        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            # Ids of nodes, which live as long as the document.
            self._flat: set[int] = set()
            self._flattening: set[int] = set()
            self._merged = 0

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            """Replace merge keys by the pairs that they merge, each key once."""
            if id(node) in self._flat:
                return
            if id(node) in self._flattening:
                raise error("a mapping is merged into itself", node)
            self._flattening.add(id(node))
            own: dict[Any, Any] = {}
            merged: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                if key_node.tag == merge:
                    for pair in self._pairs_of(value_node):
                        # The first of several mappings takes precedence.
                        merged.setdefault(_key(pair[0]), pair)
                    continue
                if (key := _key(key_node)) in own:
                    raise error(f"the key {key_node.value!r} is there twice", key_node)
                own[key] = (key_node, value_node)
            node.value = [
                *(pair for key, pair in merged.items() if key not in own),
                *own.values(),
            ]
            self._flat.add(id(node))

        def _pairs_of(self, node: yaml.Node) -> list[tuple[yaml.Node, yaml.Node]]:
            """The pairs of a merged mapping, or of a list of them."""
            parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
            pairs = []
            for part in parts:
                if not isinstance(part, yaml.MappingNode):
                    raise error("only mappings and lists of them can be merged", part)
                self.flatten_mapping(part)
                self._merged += 1 + len(part.value)
                if self._merged > MAX_PARTS:
                    raise error("what is merged is too large", node)
                pairs += part.value
            return pairs

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            if len(mapping) < len(node.value):  # such as 1 and 0x1
                raise error("two keys mean the same", node)
            return mapping

        def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
            number = node.tag in {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
            if number and len(node.value) > _MAX_DIGITS:
                raise error(f"a number of more than {_MAX_DIGITS} characters", node)
            if node.tag == _OCTAL:
                message = (
                    f"{node.value} is octal in YAML 1.1 and decimal in 1.2; leave out the zeros"
                )
                raise error(f"{message} of a number, or put a text into quotes", node)
            if node.tag == "tag:yaml.org,2002:float" and node.value[-1:].isdigit():
                with suppress(ValueError):  # not a decimal number
                    if math.isinf(float(node.value)):
                        raise error("a number that is too large", node)
            return super().construct_scalar(node)

        def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
            text = self.construct_scalar(node)
            number = int(text, 0 if text.startswith(("0x", "0o")) else 10)
            if abs(number) > sys.float_info.max:
                raise error("a number that is too large", node)
            return number

    def _key(node: yaml.Node) -> Any:
        """Equal for nodes of the same key; a node of a list or mapping equals only itself."""
        return (node.tag, node.value) if isinstance(node, yaml.ScalarNode) else id(node)

    Loader.yaml_implicit_resolvers = {}
    _add_resolvers(Loader)
    Loader.add_constructor(_OCTAL, Loader.construct_scalar)
    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)
    return Loader


@cache
def _dumper() -> type[yaml.SafeDumper]:
    """The dumper's class. It quotes what either version of YAML reads as something else."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _data: Any) -> bool:
            return True

    _add_resolvers(Dumper)
    return Dumper


def _add_resolvers(cls: type[yaml.SafeLoader | yaml.SafeDumper]) -> None:
    for tag, (form, first) in _SCALARS.items():
        cls.add_implicit_resolver(tag, re.compile(rf"(?:{form})\Z"), list(first))
