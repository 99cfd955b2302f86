"""Converts nodes to candidates, and rankings to nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, TypeVar

from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore
from llama_index.core.utils import get_tokenizer

from secondpass import Candidate, Ranked, Ranking
from secondpass.adapters import Shortened, checked_list, results, shortened
from secondpass.extend import Span

_NEIGHBOURS = ("ref_doc_id", "start_char_idx")
"""The document of a node, and where the node begins in it."""

M = TypeVar("M", bound=BaseModel)


def checked_nodes(nodes: object) -> list[NodeWithScore]:
    """The nodes as a list, checked."""
    hints = {BaseNode: "; write NodeWithScore(node=...)"}
    return checked_list(nodes, NodeWithScore, "nodes", "NodeWithScore", hints)


def candidates(nodes: Sequence[NodeWithScore], mode: MetadataMode) -> list[Candidate]:
    """The nodes as candidates, with their text in this mode."""
    return [
        Candidate(
            scored.node.get_content(metadata_mode=mode),
            scored.node.node_id,
            scored.score,
            scored.node.metadata,
        )
        for scored in nodes
    ]


def ranked(
    nodes: Sequence[NodeWithScore],
    ranking: Ranking,
    prefix: str,
    omitted: str | None,
    texts: Sequence[Shortened] | None = None,
) -> list[NodeWithScore]:
    """Copies of the nodes in the order of the ranking, with its scores, and perhaps other texts.

    ``prefix`` is that of the added metadata keys, of which ``omitted`` is left out.
    """
    copies = []
    if texts is None and any(item.span is not None for item in ranking):
        items = [_with_own_text(item, nodes[item.position].node) for item in ranking]
        ranking = replace(ranking, items=tuple(items))
    found = results(nodes, ranking, attrgetter("node.metadata"), prefix)
    for index, (scored, score, added) in enumerate(found):
        if omitted is not None:
            added.pop(omitted, None)
        if texts is not None:
            added.update(texts[index].added(scored.node.metadata, prefix))
        node = copied(scored.node, added)
        if texts is not None:
            node.set_content(texts[index].text)
        copies.append(_changed(scored, {"node": node, "score": score}))
    return copies


def shortened_nodes(
    nodes: Sequence[NodeWithScore], ranking: Ranking, max_tokens: int
) -> tuple[Ranking, list[Shortened]]:
    """The best items whose texts fit the budget, and the nodes' new texts."""
    items = [_with_place(item, nodes[item.position].node) for item in ranking]
    ranking = replace(ranking, items=tuple(items))
    return shortened(ranking, max_tokens, count=get_tokenizer(), neighbours=_NEIGHBOURS)


def _with_place(item: Ranked, node: BaseNode) -> Ranked:
    """The item with the node's own text, and where that stands in its document."""
    item = _with_own_text(item, node)
    place = node.ref_doc_id, getattr(node, "start_char_idx", None)
    metadata = {**node.metadata, **dict(zip(_NEIGHBOURS, place, strict=True))}
    return replace(item, candidate=replace(item.candidate, metadata=metadata))


def _with_own_text(item: Ranked, node: BaseNode) -> Ranked:
    """The item with the node's own text, and with the span and the pieces that are in it.

    The item has the text that was scored, in which templates put metadata before or after the
    node's own text, stripped. With ``"X: Paris is big."`` scored, and ``" Paris is big."`` as the
    node's own, the span (3, 8) becomes (1, 6).
    """
    scored, own = item.text, node.get_content(metadata_mode=MetadataMode.NONE)
    if scored == own:
        return item
    body = own.strip()
    place_in_scored, place_in_own = scored.rfind(body), own.index(body)

    def span_in_own(start: int, stop: int) -> Span | None:
        if place_in_scored < 0:
            return None
        first = max(start - place_in_scored, 0)
        last = min(stop - place_in_scored, len(body))
        return (place_in_own + first, place_in_own + last) if first < last else None

    pieces = []
    for start, stop, score in item.pieces:
        if (span := span_in_own(start, stop)) is not None:
            pieces.append((*span, score))
    return replace(
        item,
        candidate=replace(item.candidate, text=own),
        span=None if item.span is None else span_in_own(*item.span),
        pieces=pieces,
    )


def copied(node: BaseNode, added: Mapping[str, object]) -> BaseNode:
    """A copy of the node with ``added`` metadata; its mappings and lists are copies, too."""
    return _changed(
        node,
        {
            "metadata": {**node.metadata, **added},
            "relationships": node.relationships.copy(),
            "excluded_llm_metadata_keys": _joined(node.excluded_llm_metadata_keys, added),
            "excluded_embed_metadata_keys": _joined(node.excluded_embed_metadata_keys, added),
        },
    )


def snapshot(nodes: Sequence[NodeWithScore]) -> list[NodeWithScore]:
    """Copies that do not change when other components write to the nodes."""
    return [_changed(scored, {"node": copied(scored.node, {})}) for scored in nodes]


def _changed(model: M, changes: dict[str, Any]) -> M:
    """A copy with other values of some fields.

    As ``model.model_copy(update=changes)``, which took half of the postprocessor's time.
    """
    copy = object.__new__(type(model))
    extra, private = model.__pydantic_extra__, model.__pydantic_private__
    assign = object.__setattr__
    assign(copy, "__dict__", {**model.__dict__, **changes})
    assign(copy, "__pydantic_fields_set__", model.__pydantic_fields_set__.union(changes))
    assign(copy, "__pydantic_extra__", None if extra is None else extra.copy())
    assign(copy, "__pydantic_private__", None if private is None else private.copy())
    return copy


def _joined(keys: list[str], added: Mapping[str, object]) -> list[str]:
    if not keys:  # the usual case
        return [*added]
    return keys + [name for name in added if name not in keys]
