"""Compares rankings of long documents with those of the passages that they contain.

    python benchmarks/long_passages.py
    python benchmarks/long_passages.py --sets xquad-en --questions 100 --size 800

Each candidate of a question becomes a document of ten passages: the candidate at one of ten places,
and nine random passages of the collection that were not retrieved for the question. Prints a
Markdown table for each collection, by place: nDCG@10 on the documents, whole and in windows, and as
a share of nDCG@10 on the passages alone; and for how many relevant documents the reported span is
that of the relevant passage (they overlap by at least half of the shorter one). Retrieval scores
are not used.
"""

from __future__ import annotations

import argparse
import random

from checked import check
from quality import MEASURE, FirstStage, add_data, first_stages, present

from secondpass import Candidate, Ranking, Reranker
from secondpass_evaluation import evaluate, ranking_to_run

PLACES = 10
DEPTH = 20


def sample(stage: FirstStage, count: int, choose: random.Random) -> dict[str, list[Candidate]]:
    """Questions with a relevant passage among their first candidates, which are returned."""
    first = {query: found[:DEPTH] for query, found in stage.candidates.items()}
    usable = [
        query
        for query, found in first.items()
        if any(stage.qrels[query].get(str(each.id), 0) > 0 for each in found)
    ]
    chosen = choose.sample(usable, min(count, len(usable)))
    return {query: [Candidate(each.text, each.id) for each in first[query]] for query in chosen}


def joined_documents(
    stage: FirstStage, query: str, passages: list[Candidate], pool: list[Candidate], place: int
) -> list[Candidate]:
    """A document for each passage, which contains it at ``place``; the metadata has its span."""
    choose = random.Random(f"{query} {place}")
    excluded = {each.id for each in stage.candidates[query]}
    excluded |= {id for id, grade in stage.qrels[query].items() if grade > 0}
    others = [each for each in pool if each.id not in excluded]
    documents = []
    for passage in passages:
        texts = [each.text for each in choose.sample(others, PLACES - 1)]
        start = sum(len(text) + 1 for text in texts[:place])
        texts.insert(place, passage.text)
        metadata = {"span": (start, start + len(passage.text))}
        documents.append(Candidate("\n".join(texts), passage.id, metadata=metadata))
    return documents


def overlaps(item_span: tuple[int, int] | None, passage: tuple[int, int]) -> bool:
    if item_span is None:
        return False
    common = min(item_span[1], passage[1]) - max(item_span[0], passage[0])
    shorter = min(item_span[1] - item_span[0], passage[1] - passage[0])
    return common * 2 >= shorter


def quality(stage: FirstStage, rankings: dict[str, Ranking]) -> float:
    qrels = {query: stage.qrels[query] for query in rankings}
    return evaluate(ranking_to_run(rankings), qrels, [MEASURE]).mean[MEASURE]


def rank_all(reranker: Reranker, stage: FirstStage, candidates: dict[str, list[Candidate]]):
    texts = [(stage.queries[query], found) for query, found in candidates.items()]
    rankings = reranker.rerank_many(texts)
    for ranking in rankings:
        check(ranking.report, {"text_truncated"})
    return dict(zip(candidates, rankings, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_data(parser)
    parser.add_argument(
        "--sets", nargs="+", default=["xquad-en", "trec-dl19"], help="names of folders in DATA"
    )
    parser.add_argument("--questions", type=int, default=40, help="number of questions")
    parser.add_argument("--method", default="embedded", help="type of the method")
    parser.add_argument(
        "--size", type=int, help="characters per window; default: that of the setting"
    )
    places = range(1, PLACES + 1)
    parser.add_argument(
        "--places",
        type=int,
        nargs="+",
        default=places,
        choices=places,
        metavar="PLACE",
        help="from 1 to 10; default: all",
    )
    arguments = parser.parse_args()
    passages = {} if arguments.size is None else {"size": arguments.size}
    for folder in present(arguments.data, arguments.sets):
        stage = next(iter(first_stages(folder, stemmed=False)))
        found = sample(stage, arguments.questions, random.Random(folder.name))
        pool = list({each.id: each for some in stage.candidates.values() for each in some}.values())
        method = {"type": arguments.method}
        bare = quality(stage, rank_all(Reranker(method), stage, found))
        print(
            f"\n{folder.name}, {len(found)} questions, {DEPTH} candidates: "
            f"{MEASURE} of the passages alone {bare:.4f}\n"
        )
        print("| place | whole | in windows | share of the passages alone | span found | windows |")
        print("| ---: | ---: | ---: | ---: | ---: | ---: |")
        for place in arguments.places:
            documents = {
                query: joined_documents(stage, query, each, pool, place - 1)
                for query, each in found.items()
            }
            whole = quality(stage, rank_all(Reranker(method), stage, documents))
            rankings = rank_all(Reranker(method, passages=passages), stage, documents)
            value = quality(stage, rankings)
            hits = [
                overlaps(item.span, item.metadata["span"])
                for query, ranking in rankings.items()
                for item in ranking
                if stage.qrels[query].get(str(item.id), 0) > 0
            ]
            pairs = sum(ranking.report.usage.pairs for ranking in rankings.values())
            print(
                f"| {place} | {whole:.4f} | {value:.4f} | {value / bare:.3f} "
                f"| {sum(hits) / len(hits):.3f} of {len(hits)} | {pairs / len(rankings):.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
