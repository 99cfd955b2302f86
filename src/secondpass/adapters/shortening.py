"""Documents of a framework that fit a budget of tokens together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from secondpass.ranking.result import Ranking

SOURCES_KEY = "rerank_sources"


class Shortened(NamedTuple):
    """The text of a document in place of its whole text.

    Attributes:
        text: its new text.
        sources: the ``id`` of the candidate and the ``spans`` of its text that are there, as
            ``[start, stop]`` in characters.
    """

    text: str
    sources: list[dict[str, Any]]

    def added(self, metadata: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        """The metadata to add to the document; nothing if another program wrote the key."""
        key = prefix + SOURCES_KEY
        return {key: self.sources} if isinstance(metadata.get(key, []), list) else {}


def shortened(
    ranking: Ranking, max_tokens: int, *, count: object, neighbours: tuple[str, str]
) -> tuple[Ranking, list[Shortened]]:
    """The best items whose texts fit the budget, and these texts; see :meth:`Ranking.pack`.

    The report of the ranking says what was left out by ``max_tokens``, as ``repeated``, and
    without a text (``no_text``).

    Args:
        ranking: of candidates with the metadata of the documents.
        max_tokens: number of tokens that the texts may have together.
        count: returns the tokens of a text, or their number; None takes an estimate.
        neighbours: metadata keys with the document that a candidate is a part of, and with the
            place in characters where it begins there.
    """
    packed = ranking.pack(max_tokens, count=count, neighbours=neighbours, numbered=False)
    items = {item.position: item for item in ranking}
    kept, texts = [], []
    for source, text in zip(packed.sources, packed.passages, strict=True):
        item = items[source.position]
        # Another text has other positions.
        kept.append(item if text == item.text else replace(item, span=None))
        spans = [[*span] for span in source.spans]
        texts.append(Shortened(text, [{"id": source.id, "spans": spans}]))
    names = {"tokens": "max_tokens"}
    left_out = {names.get(why, why): positions for why, positions in packed.left_out.items()}
    report = replace(ranking.report, left_out={**ranking.report.left_out, **left_out})
    return replace(ranking, items=tuple(kept), report=report), texts
