"""Keywords of the calls of other packages, and what to write in place of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from secondpass.settings import parameters_of, registry
from secondpass.settings.messages import COMING_FROM, did_you_mean, suggestion
from secondpass.settings.name_hints import OPEN, complete, in_words
from secondpass.settings.parameter_hints import PATHS, also, configured, near, of_methods, synonym

_CANDIDATES = frozenset(
    {"docs", "documents", "hits", "nodes", "passages", "results", "sentences", "texts"}
)
"""The argument ``candidates`` in other packages."""
_ALIKE = (
    _CANDIDATES | {"candidates"},
    frozenset({"query", "query_str", "question", "q"}),
    frozenset({"query", "query_bundle"}),
    frozenset({"text", "content", "page_content", "document", "passage", "body", "with_text"}),
    frozenset({"id", "doc_id", "document_id", "node_id"}),
    frozenset({"metadata", "meta", "payload"}),
    frozenset({"position", "index", "pos"}),
    frozenset({"tokens", "max_tokens", "budget"}),
    frozenset({"count", "tokenizer", "token_counter"}),
    frozenset({"ranker", "reranker", "rerank", "rerankers"}),
    frozenset({"config", "path", "file", "configuration"}),
    frozenset({"chat_generator", "generator", "llm"}),
)
"""Names of arguments that stand for the same thing."""

_PAGE = f"; coming from another package: {COMING_FROM}"
_AND_PAGE = f" Coming from another package: {COMING_FROM}"
_IN_CANDIDATES = "it is part of each candidate: [{'text': …, %s}, …]"
_OF_RERANKERS: Mapping[str, str] = {
    **dict.fromkeys(("doc_ids", "ids"), _IN_CANDIDATES % "'id': …"),
    **dict.fromkeys(("metadata", "metadatas", "meta"), _IN_CANDIDATES % "'metadata': {…}"),
    "scores": _IN_CANDIDATES % "'score': …",
    **dict.fromkeys(("pairs", "queries"), "use rerank_many([(query, candidates), …])"),
    "request": "write rerank(query, candidates)",
}
"""Keywords of the calls of rerankers in other packages -> what to do instead."""

_ELSE = ""
"""Stands for further arguments by position, and for other keywords, in :data:`_OF_FUNCTIONS`."""
_BY_NAME = "give the lists by name: fuse({'words': …, 'vectors': …})"
_OF_FUNCTIONS: Mapping[str, Mapping[str, str]] = {
    "Candidate": {_ELSE: "further fields are metadata: Candidate(text, metadata={…})"},
    "fuse": {
        **dict.fromkeys(("k", "rank_constant"), "rrf_k"),
        **dict.fromkeys(("method", "mode"), "by"),
        **dict.fromkeys(("top_k", "top_n", "limit"), "it returns all: fuse(…)[:k]"),
        _ELSE: _BY_NAME,
    },
    "Reranker.from_config": {"preset": "use Reranker.from_preset(…)"},
    "load": {"preset": "use Reranker.from_preset(…)"},
}
"""Function -> keyword -> the argument that is meant, or what to do."""

_OF_CONFIGURATIONS = frozenset({"Reranker.from_config", "load"})
"""Functions whose settings stand in the configuration that they take."""


def of_keyword(call: str) -> Callable[[str, Collection[str]], str]:
    """What returns ``; …`` for a keyword that a function of this name does not take.

    Of the keyword, and of those that it takes.
    """
    own = _OF_FUNCTIONS.get(call, {})

    def hint(name: str, known: Collection[str]) -> str:
        if meant := own.get(name):
            return f"; did you mean {meant!r}?" if meant in known else f"; {meant}"
        if call.startswith("Reranker.") and call not in _OF_CONFIGURATIONS:
            return of_option(name, known, call=call.removeprefix("Reranker."))
        if same := of_argument(name, known):
            return same
        if call in _OF_CONFIGURATIONS:
            return _in_configuration(name, known)
        otherwise = f"; {own[_ELSE]}" if _ELSE in own else suggestion(name, [*known])
        return did_you_mean(name, [*known]) or otherwise

    return hint


def of_argument(name: str, known: Collection[str]) -> str:
    """``; did you mean …?`` if a keyword stands for one of the known arguments; else empty."""
    setting = PATHS.get(synonym(name))
    same = (one for one in known if setting is not None and PATHS.get(synonym(one)) == setting)
    meant = _alike(name, known) or next(same, "")
    return f"; did you mean {meant!r}?" if meant else ""


def of_position(call: str, keywords: Sequence[str]) -> str:
    """``; …`` for more arguments by position than a function takes, which has these keywords."""
    own = _OF_FUNCTIONS.get(call, {}).get(_ELSE)
    if call in _OF_CONFIGURATIONS:
        own = "write further settings into the configuration"
    if own:
        return f"; {own}"
    return f"; name the others, as in {keywords[0]}=…" if keywords else ""


def _alike(name: str, known: Collection[str]) -> str:
    """The one of the known arguments that a name of other packages stands for; else empty."""
    groups = [group for group in _ALIKE if name in group]
    return next((one for group in groups for one in known if one in group), "")


def _in_configuration(name: str, known: Collection[str]) -> str:
    """``; …`` for a setting that was passed beside the configuration in which it belongs."""
    settings = [*parameters_of(registry.reranker()[0])]
    what = configured(name, settings)
    if what is None:
        return did_you_mean(name, [*known]) or suggestion(name, settings, leads_to_page=True)
    return f"; {what if isinstance(what, str) else f'write {in_words(what)} in the configuration'}"


def of_options(names: Sequence[str], known: Collection[str], method: object = None) -> str:
    """The message about keywords that ``rerank`` and its like do not take.

    Args:
        names: of the keywords.
        known: the keywords of the call.
        method: the type of the configured one.
    """
    hints = {name: of_option(name, known, method) for name in names}
    if len(hints) == 1:
        return "".join(
            f"got an unexpected keyword argument {n!r}{hint}" for n, hint in hints.items()
        )
    shown = {n: h.removesuffix(_PAGE).removesuffix(_AND_PAGE) for n, h in hints.items()}
    lines = [f"\n  {name!r}{hint}" for name, hint in shown.items()]
    return f"got unexpected keyword arguments{_PAGE if shown != hints else ''}{''.join(lines)}"


def of_option(
    name: str, known: Collection[str], method: object = None, *, call: str = "rerank"
) -> str:
    """``; …`` for a keyword that no call of a reranker takes.

    Args:
        name: of the keyword.
        known: the keywords of this call.
        method: the type of the configured one.
        call: the method of rerankers that is called.
    """
    if "requests" in known and name in {*_CANDIDATES, "candidates", "query", "request"}:
        return "; did you mean 'requests'? They are [(query, candidates), …]"
    if meant := _alike(name, known):
        return f"; did you mean {meant!r}?{_AND_PAGE}"
    what = _OF_RERANKERS.get(name) or configured(name, known)
    if what is None:
        return suggestion(name, sorted(known), leads_to_page=True)
    if isinstance(what, str):
        return f"; {what}{_PAGE}"
    if (setting := near(what, known)) is not None:
        return f"; did you mean {setting!r}{also(name, what)}?"
    (key, value), *_ = what.items()
    if value == OPEN:
        is_changeable = key not in {"method", "fallback"}
        changed = f"use reranker.changed({key}=…).{call}(…)"
        use = changed if is_changeable else "create another one"
    elif key == "method":
        own = of_methods(name, method) or {}
        is_own = own.get("method", {}).get("type") == method
        use = f"Reranker({in_words(complete(own['method'] if is_own else value))})"
    else:
        use = f"Reranker({key}={in_words(value)})"
    return f"; it is a setting of the reranker: {use}{_PAGE}"
