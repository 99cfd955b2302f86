"""YAML text to plain values, within bounds.

PyYAML's safe loader takes the last of two equal keys without a word, and its merge keys (``<<``)
copy what they merge: a few hundred bytes can describe more copies than memory holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

MAX_CHARACTERS = 256 * 1024
"""Of a text. PyYAML reads about that much in a second or two."""

MAX_PARTS = 20_000
"""Of a value, or of what a text's merge keys merge. References can repeat a part many times."""

MAX_DEPTH = 64
"""Of lists and mappings inside each other."""

_MAX_DIGITS = 400
"""Of a number: Python needs quadratic time for longer ones, or refuses them."""


class NotYAMLError(ValueError):
    """A text is not YAML. The message says where and why."""


class TooLargeError(NotYAMLError):
    """A text, or what it describes, is too large."""


def parse(text: str) -> Any:
    """The value that ``text`` describes.

    Raises:
        NotYAMLError: it is not YAML or has a key twice; as a TooLargeError, it is too large.
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
        # The loader's own conversions raise anything: `!!int ""` is an IndexError.
        message = f"not YAML: {type(error).__name__}"
    else:
        if (wrong := too_large(value)) is not None:
            raise TooLargeError(wrong)
        return value
    raise NotYAMLError(message)


def too_large(value: Any) -> str | None:
    """What is wrong with the size of a value that may refer to itself; None if nothing is."""
    left, parts = [(value, 1)], 0
    while left:
        parts += 1
        item, depth = left.pop()
        if parts > MAX_PARTS:
            return "is too large, or refers to itself"
        if not isinstance(item, Mapping | list | tuple | set | frozenset):
            continue
        inside = [*item.values()] if isinstance(item, Mapping) else item
        if inside and depth > MAX_DEPTH:
            return f"is nested more than {MAX_DEPTH} deep, or refers to itself"
        left.extend((one, depth + 1) for one in inside)
    return None


@cache
def _loader() -> type[yaml.SafeLoader]:
    """The loader's class. It is made late, because importing yaml takes a while."""
    import yaml

    merge = "tag:yaml.org,2002:merge"

    def refused(message: str, node: yaml.Node) -> Exception:
        return yaml.constructor.ConstructorError(None, None, message, node.start_mark)

    class Loader(yaml.SafeLoader):
        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            # By the id of a node, which lives as long as the document that holds it.
            self._flat: set[int] = set()
            self._flattening: set[int] = set()
            self._merged = 0

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            """Put what is merged into a mapping in front of its own pairs, each key once."""
            if id(node) in self._flat:
                return
            if id(node) in self._flattening:
                raise refused("a mapping is merged into itself", node)
            self._flattening.add(id(node))
            own: dict[Any, Any] = {}
            merged: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                if key_node.tag == merge:
                    for pair in self._pairs_of(value_node):
                        # The first of several mappings stands over the others.
                        merged.setdefault(_key(pair[0]), pair)
                    continue
                if (key := _key(key_node)) in own:
                    message = f"the key {key_node.value!r} is there twice"
                    raise refused(message, key_node)
                own[key] = (key_node, value_node)
            node.value = [
                *(pair for key, pair in merged.items() if key not in own),
                *own.values(),
            ]
            self._flat.add(id(node))

        def _pairs_of(self, node: yaml.Node) -> list[tuple[yaml.Node, yaml.Node]]:
            """The pairs of a mapping that is merged, or of a list of them."""
            parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
            pairs = []
            for part in parts:
                if not isinstance(part, yaml.MappingNode):
                    raise refused("only mappings and lists of them can be merged", part)
                self.flatten_mapping(part)
                self._merged += 1 + len(part.value)
                if self._merged > MAX_PARTS:
                    raise refused("what is merged is too large", node)
                pairs += part.value
            return pairs

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            if len(mapping) < len(node.value):  # as with 1 and 0x1
                raise refused("two keys mean the same", node)
            return mapping

        def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
            number = node.tag in {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
            if number and len(node.value) > _MAX_DIGITS:
                raise refused(f"a number of more than {_MAX_DIGITS} characters", node)
            return super().construct_scalar(node)

    def _key(node: yaml.Node) -> Any:
        """What two nodes of the same key have in common; a list is no key of a mapping anyway."""
        return (node.tag, node.value) if isinstance(node, yaml.ScalarNode) else id(node)

    return Loader
