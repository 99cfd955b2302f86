"""Errors about attributes of public objects that are not there, or cannot be set: what to write."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

from secondpass.errors import with_article

C = TypeVar("C", bound=type)

_LANGCHAIN = "the class of examples/langchain_compressor.py has that method"
_MANY = "use rerank(query, texts), or rerank_many([(query, texts), …])"

INSTEAD: Mapping[str, Mapping[str, str]] = {
    "Reranker": {
        **dict.fromkeys(("rank", "rerank_documents", "search"), "use rerank(query, candidates)"),
        **dict.fromkeys(("predict", "compute_score", "score"), _MANY),
        **dict.fromkeys(("arank", "rank_async", "rerank_async"), "use await arerank(…)"),
        **dict.fromkeys(("compress_documents", "acompress_documents"), _LANGCHAIN),
        "postprocess_nodes": "SecondPassRerank of the adapter for LlamaIndex has that method",
        "run": "SecondPassRanker of the adapter for Haystack has that method",
        "save": "use to_config(), whose mapping from_config() takes",
    },
    "Ranking": {
        **dict.fromkeys(("results", "documents", "docs", "candidates", "data"), "use items"),
        **dict.fromkeys(("ids", "doc_ids"), "use [item.id for item in ranking]"),
        "scores": "use [item.final_score for item in ranking]",
        "texts": "use [item.text for item in ranking]",
        **dict.fromkeys(("top_k", "top", "head"), "use ranking[:k], or top_k= of rerank"),
        **dict.fromkeys(("best", "first"), "use ranking[0]"),
        "to_json": "use to_dict(), whose mapping json.dumps takes",
        **dict.fromkeys(("to_list", "tolist"), "use items, or to_dict()['ranking']"),
    },
    "Report": {
        **dict.fromkeys(("ok", "success"), "use status == 'ok'"),
        **dict.fromkeys(("errors", "error", "warnings", "messages"), "use issues"),
        **dict.fromkeys(("latency", "duration", "elapsed", "time"), "use seconds"),
        "cost": "use usage.cost",
        "tokens": "use usage, which has the tokens",
        "model": "use engines, or method",
    },
    "Ranked": {
        **dict.fromkeys(("doc_id", "document_id", "node_id"), "use id"),
        **dict.fromkeys(
            ("corpus_id", "index", "result_index"), "use position, the index in the input"
        ),
        **dict.fromkeys(("relevance_score", "similarity"), "use rerank_score"),
        **dict.fromkeys(("document", "doc", "node", "passage"), "use candidate"),
        **dict.fromkeys(("content", "page_content"), "use text"),
        **dict.fromkeys(("to_dict", "dict", "model_dump"), "use ranking.to_dict()['ranking']"),
        **dict.fromkeys(("meta", "payload"), "use metadata"),
    },
}
"""Class -> attribute that it has in other packages, or that is often assumed -> what to write."""


def unknown_attribute(
    instance: object,
    name: str,
    parts: Mapping[str, type] | None = None,
    metadata: Mapping[str, object] | None = None,
) -> AttributeError:
    """The error for an attribute that an object does not have.

    Args:
        instance: the object. None of its attributes is read.
        name: of the attribute.
        parts: what to write, with ``%s`` for the name -> class that may have that attribute.
        metadata: of a candidate.
    """
    cls = type(instance)
    if hasattr(cls, name):  # its own error is lost before Python asks for `__getattr__`
        object.__getattribute__(instance, name)
    hints = [INSTEAD[base.__name__].get(name) for base in cls.__mro__ if base.__name__ in INSTEAD]
    if name in (metadata or {}):
        hints.insert(0, f"use metadata[{name!r}]")
    if not name.startswith("_"):
        hints += [text % name for text, part in (parts or {}).items() if hasattr(part, name)]
    hint = next((f"; {hint}" for hint in hints if hint), "")
    message = f"{cls.__name__!r} object has no attribute {name!r}{hint}"
    return AttributeError(message, name=name, obj=instance)  # so Python can suggest names


def unchangeable(cls: C) -> C:
    """Say what to do instead if an attribute of a frozen dataclass is set or deleted.

    One with slots would raise a TypeError about ``super()`` for a name that is no field, because
    its methods know only the class without slots.
    """

    def check(instance: object, name: str) -> None:
        names = [field.name for field in dataclasses.fields(cls)]
        if type(instance) is cls or name in names:  # a subclass may have attributes of its own
            which = f"{name}=…" if name in names else "…"
            use = f"use dataclasses.replace(it, {which}), which makes a copy"
            raise dataclasses.FrozenInstanceError(
                f"{with_article(cls.__name__)} cannot be changed; {use}"
            )

    def set_unless_frozen(self: object, name: str, value: object) -> None:
        check(self, name)
        object.__setattr__(self, name, value)

    def delete_unless_frozen(self: object, name: str) -> None:
        check(self, name)
        object.__delattr__(self, name)

    cls.__setattr__ = set_unless_frozen  # type: ignore[assignment]
    cls.__delattr__ = delete_unless_frozen  # type: ignore[assignment]
    return cls
