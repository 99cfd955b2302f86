"""What a caller tells of the situation a query comes from, as a model reads it.

``rerank(..., context=...)`` takes anything. Strings are shown as they are, mappings and lists line
by line. Where an application has data of its own shape, a context builder makes a text of it: a
class registered in the group ``secondpass.contexts``, or in Python any function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from secondpass.candidates import kind_of
from secondpass.errors import ConfigurationError, MethodError
from secondpass.settings import Nested, configurable, describe, registry

if TYPE_CHECKING:
    from annotated_types import Ge

ContextBuilder: TypeAlias = Callable[[Any], str]


def plain_context(context: Any) -> str:
    """A string as it is; of a mapping ``key: value`` lines, of a list one line each."""
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
    """Where a project stands, from its nodes: what is done, what came of it, what is open.

    The context of a ranking is then a list of nodes, a mapping of nodes by id, or a mapping or an
    object that holds either under ``nodes``. A node is a mapping or an object with ``id``,
    ``type``, ``output`` and ``status``, which is ``completed`` or anything else (or instead of it a
    boolean ``completed``). The text has the number of completed and of pending nodes, the outputs
    of all completed ones, and the first pending ones, each as id / output / type. A context that is
    a string is shown as it is.

    Args:
        pending: how many pending nodes are shown at most.
    """

    def __init__(self, *, pending: Annotated[int, Ge(0)] = 10) -> None:
        self.pending = pending

    def __call__(self, context: Any) -> str:
        """The text.

        Raises:
            MethodError: the context is neither a string nor nodes.
        """
        if context is None:
            return ""
        if isinstance(context, str):
            return context
        nodes = _nodes(context)
        done = [node for _, node in nodes if _completed(node)]
        pending = [(key, node) for key, node in nodes if not _completed(node)]
        outputs = [_line(_get(node, "output")) for node in done]
        lines = [f"Completed: {len(done)}", f"Pending: {len(pending)}"]
        lines += ["Outputs of completed nodes:", *(f"- {output}" for output in outputs if output)]
        lines.append("Pending goals (id / output / type):")
        for key, node in pending[: self.pending]:
            name = _line(_get(node, "id")) or key
            shown = [name, _line(_get(node, "output")), _line(_get(node, "type"))]
            lines.append(f"- {' / '.join(value or '-' for value in shown)}")
        return "\n".join(lines)


_NODE_FIELDS = ("id", "type", "output", "status", "completed")


def _nodes(context: Any) -> list[tuple[str, Any]]:
    """The nodes of a project, each with its key in a mapping by id, or an empty one.

    Raises:
        MethodError: there are none.
    """
    held = _get(context, "nodes")
    for value in (context,) if held is None else (held, context):
        if isinstance(value, Mapping):
            keyed = [(_line(key), node) for key, node in value.items()]
        elif isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray | Set):
            keyed = [("", node) for node in value]
        else:
            continue
        if all(_is_node(node) for _, node in keyed):
            return keyed
    told = "context: give a string, a list of nodes or a mapping of nodes by id, not "
    raise MethodError(told + kind_of(context), "context_failed")


def _is_node(value: Any) -> bool:
    return isinstance(value, Mapping) or any(hasattr(value, name) for name in _NODE_FIELDS)


def _get(node: Any, name: str) -> Any:
    return node.get(name) if isinstance(node, Mapping) else getattr(node, name, None)


def _completed(node: Any) -> bool:
    flag = _get(node, "completed")
    if isinstance(flag, bool):
        return flag
    status = _get(node, "status")
    status = getattr(status, "value", status)
    return str(status).lower() in {"completed", "complete", "done"}


def _line(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, set | frozenset):
        value = sorted(map(str, value))  # the same prompt each time
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return " ".join(str(value).split())


def to_context_builder(value: object) -> ContextBuilder | None:
    """A context builder from a function, a registered name or a mapping with a ``type``.

    Raises:
        ConfigurationError: it is none of these.
    """
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
