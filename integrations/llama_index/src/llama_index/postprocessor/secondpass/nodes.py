"""Nodes as candidates, and copies of nodes that share nothing which components write to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from llama_index.core.schema import BaseNode, ImageNode, MetadataMode, NodeWithScore, TextNode

from secondpass import Candidate, Ranking
from secondpass.adapters.scores import falling_scores, provenance
from secondpass.candidates import kind_of
from secondpass.errors import InputError

_EXCLUDED_SET = frozenset({"excluded_llm_metadata_keys", "excluded_embed_metadata_keys"})


def checked_nodes(nodes: object) -> list[NodeWithScore]:
    """The nodes as a list.

    Raises:
        InputError: they are no nodes with scores; the message names the wrong one.
    """
    wrong = isinstance(nodes, str | bytes | Mapping | NodeWithScore | BaseNode)
    if wrong or not isinstance(nodes, Iterable):
        raise InputError(f"nodes: give a list of NodeWithScore, not {kind_of(nodes)}")
    checked = list(nodes)
    for index, one in enumerate(checked):
        if not isinstance(one, NodeWithScore):
            hint = "; write NodeWithScore(node=...)" if isinstance(one, BaseNode) else ""
            told = f"give a NodeWithScore, not {kind_of(one)}{hint}"
            raise InputError(f"nodes[{index}]: {told}")
    return checked


def candidates(nodes: Sequence[NodeWithScore], mode: MetadataMode) -> list[Candidate]:
    """The nodes as the core takes them, with the text of this mode."""
    return [
        Candidate(
            one.node.get_content(metadata_mode=mode) or _no_text(one.node),  # type: ignore[arg-type]
            one.node.node_id,
            one.score,
            one.node.metadata,
        )
        for one in nodes
    ]


def ranked(
    nodes: Sequence[NodeWithScore], ranking: Ranking, prefix: str, without: str | None
) -> list[NodeWithScore]:
    """Copies of the nodes in the order of the ranking, with its scores.

    Args:
        nodes: what was ranked.
        ranking: of them.
        prefix: stands before the names of the metadata keys that are added.
        without: one of these that is not added.
    """
    found = []
    for item, score in zip(ranking.items, falling_scores(ranking), strict=True):
        one = nodes[item.position]
        added = provenance(item, one.node.metadata, prefix)
        if without is not None:
            added.pop(without, None)
        found.append(_scored(one, copied(one.node, added), score))
    return found


def copied(node: BaseNode, added: Mapping[str, object]) -> BaseNode:
    """The node with ``added`` metadata, sharing no mapping or list that components write to."""
    # What model_copy(update=...) does, without its detours: they took half of an adapter's time.
    fields = node.__dict__.copy()
    fields["metadata"] = {**fields["metadata"], **added}
    fields["relationships"] = fields["relationships"].copy()
    fields["excluded_llm_metadata_keys"] = _joined(fields["excluded_llm_metadata_keys"], added)
    fields["excluded_embed_metadata_keys"] = _joined(fields["excluded_embed_metadata_keys"], added)
    extra, private = node.__pydantic_extra__, node.__pydantic_private__
    copy = node.__class__.__new__(node.__class__)
    assign = object.__setattr__
    assign(copy, "__dict__", fields)
    assign(copy, "__pydantic_fields_set__", node.__pydantic_fields_set__ | _EXCLUDED_SET)
    assign(copy, "__pydantic_extra__", None if extra is None else extra.copy())
    assign(copy, "__pydantic_private__", None if private is None else private.copy())
    return copy


def snapshot(nodes: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    """Copies that stay as they are, whatever components behind do with the nodes."""
    return [_scored(one, copied(one.node, {}), one.score) for one in nodes]


def _scored(one: NodeWithScore, node: BaseNode, score: float | None) -> NodeWithScore:
    """``one`` with another node and score, of its own class."""
    if type(one) is NodeWithScore:  # twice as fast
        return NodeWithScore(node=node, score=score)
    return one.model_copy(update={"node": node, "score": score})


def _no_text(node: BaseNode) -> str | None:
    """An empty text; or None, which tells the core that there is nothing to judge."""
    if isinstance(node, TextNode):
        return None if isinstance(node, ImageNode) else ""
    resource = getattr(node, "text_resource", None)
    return None if resource is None or resource.text is None else ""


def _joined(keys: list[str], added: Mapping[str, object]) -> list[str]:
    if not keys:  # the usual case; this runs for every node
        return [*added]
    return keys + [name for name in added if name not in keys]
