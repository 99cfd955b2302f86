"""Context builders: convert the ``context`` of a ranking to text, for the prompt.

``rerank(..., context=...)`` takes any object. Strings are shown as they are, mappings and lists
line by line. Other data needs a context builder: a class registered in the group
``secondpass.contexts``, or in Python any function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from secondpass.errors import ConfigurationError, MethodError
from secondpass.ranking.candidates import kind_of
from secondpass.settings import Nested, configurable, describe, registry

if TYPE_CHECKING:
    from annotated_types import Ge

ContextBuilder: TypeAlias = Callable[[Any], str]


def plain_context(context: Any) -> str:
    """A string as it is, a mapping as ``key: value`` lines, an iterable as one line per item."""
    if context is None:
        return ""
    if isinstance(context, str):
        return context
    if isinstance(context, Mapping):
        return "\n".join(f"{_line(key)}: {_line(value)}" for key, value in context.items())
    if isinstance(context, Iterable) and not isinstance(context, bytes | bytearray):
        return "\n".join(f"- {_line(value)}" for value in context)
    return str(context)


@configurable
class ProjectContext:
    """The state of a project, from its nodes: what is completed, with outputs, and what is pending.

    The context of a ranking is a list of nodes, a mapping of nodes by id, or a mapping or an object
    that holds either under ``nodes``. A node is a mapping or an object with ``id``, ``type``,
    ``output`` and ``status``; a node whose status is not ``completed`` is pending. A boolean
    ``completed`` replaces the status. The text has the number of completed and of pending nodes,
    the outputs of all completed ones, and the first pending ones, each as id / output / type. With
    None under ``nodes`` the project is empty. A string is shown as it is, and a mapping without
    nodes as ``key: value`` lines.

    Args:
        pending: number of pending nodes shown at most.
    """

    def __init__(self, *, pending: Annotated[int, Ge(0)] = 10) -> None:
        self.pending = pending

    def __call__(self, context: Any) -> str:
        """The text of a context, or a MethodError if it is no string, no mapping and no nodes."""
        nodes = None if context is None or isinstance(context, str) else _nodes(context)
        if nodes is None:
            return plain_context(context)
        completed = [node for _, node in nodes if _is_completed(node)]
        pending = [(key, node) for key, node in nodes if not _is_completed(node)]
        outputs = [_line(_get(node, "output")) for node in completed]
        lines = [f"Completed: {len(completed)}", f"Pending: {len(pending)}"]
        lines += ["Outputs of completed nodes:", *(f"- {output}" for output in outputs if output)]
        lines.append("Pending goals (id / output / type):")
        for key, node in pending[: self.pending]:
            name = _line(_get(node, "id")) or key
            parts = [name, _line(_get(node, "output")), _line(_get(node, "type"))]
            lines.append(f"- {' / '.join(part or '-' for part in parts)}")
        return "\n".join(lines)


_NODE_FIELDS = ("id", "type", "output", "status", "completed")


def _nodes(context: Any) -> list[tuple[str, Any]] | None:
    """(key, node) for each node of a project; the keys of a list of nodes are empty.

    None if the context is a mapping without nodes; a MethodError for another one without nodes.
    """
    is_mapping = isinstance(context, Mapping)
    has_member = "nodes" in context if is_mapping else hasattr(context, "nodes")
    member = _get(context, "nodes")
    if has_member and member is None:
        return []
    for value in (context,) if member is None else (member, context):
        keyed = _keyed(value)
        if keyed is not None and all(_is_node(node) for _, node in keyed):
            return keyed
    if is_mapping:
        return None
    for index, node in enumerate(context if _is_list(context) else ()):
        if not _is_node(node):
            fields = ", ".join(_NODE_FIELDS)
            what = f"a mapping, or an object with one of {fields}"
            message = f"context[{index}]: a node is {what}; not {kind_of(node)}"
            raise MethodError(message, "context_failed")
    message = f"context: give a string, a list of nodes or a mapping, not {kind_of(context)}"
    raise MethodError(message, "context_failed")


def _keyed(value: Any) -> list[tuple[str, Any]] | None:
    """(key, item) for each item of a mapping or a list; None if it is neither."""
    if isinstance(value, Mapping):
        return [(_line(key), item) for key, item in value.items()]
    if _is_list(value):
        return [("", item) for item in value]
    return None


def _is_list(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray | Set)


def _is_node(value: Any) -> bool:
    return isinstance(value, Mapping) or any(hasattr(value, name) for name in _NODE_FIELDS)


def _get(node: Any, name: str) -> Any:
    return node.get(name) if isinstance(node, Mapping) else getattr(node, name, None)


def _is_completed(node: Any) -> bool:
    flag = _get(node, "completed")
    if isinstance(flag, bool):
        return flag
    status = _get(node, "status")
    status = getattr(status, "value", status)
    return str(status).lower() in {"completed", "complete", "done"}


def _line(value: Any) -> str:
    """A value as one line of text."""
    if value is None:
        return ""
    if isinstance(value, set | frozenset):
        value = sorted(map(str, value))  # sets have no order, and prompts are deterministic
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return " ".join(str(value).split())


def to_context_builder(value: object) -> ContextBuilder | None:
    """The context builder of a function, a registered name or a mapping with a ``type``."""
    if value is None:
        return None
    if isinstance(value, str):
        value = {"type": value}
    if isinstance(value, Mapping):
        value = registry.build("contexts", value)
    if callable(value) and not isinstance(value, type):
        return value
    raise ConfigurationError(
        f"give a name, a mapping with a 'type', or a function, not {describe(value)}"
    )


def _schema() -> dict[str, Any]:
    options = registry.schemas("contexts")
    return {"anyOf": [{"type": "null"}, {"enum": registry.bare_names(options)}, *options]}


CONTEXT = Nested(to_context_builder, _schema)
