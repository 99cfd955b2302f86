"""Invented collections in the form that the benchmarks read, with the names of real ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

NAMES = ("trec-dl19", "cranfield", "vaswani", "xquad-en", "xquad-de")
ANIMALS = ("owl", "cat", "fox", "bee", "horse", "seal", "goat", "bear")
PLACES = ("forest", "garden", "river", "harbour", "mountain")
PASSAGE = "In the {place} of the north there is a {animal} that {tail} for the whole of the year."
QUERY = "What does the {animal} of the {place} do?"
TAILS = ("sleeps and eats", "is seen with others", "hides from people", "looks for food at night")
GERMAN = ("Eule", "Katze", "Füchsin", "Biene", "Stute", "Robbe", "Ziege", "Bärin")
GERMAN_PLACES = ("Wald", "Garten", "Fluss", "Hafen", "Gebirge")
GERMAN_PASSAGE = "Im {place} des Nordens lebt seit vielen Jahren eine {animal}, die {tail}."
GERMAN_QUERY = "Was tut die {animal} aus dem {place}?"
GERMAN_TAILS = ("schläft und frisst", "mit anderen zieht", "sich versteckt", "nachts Futter sucht")


def write_collections(folder: Path) -> Path:
    """Write a folder for each of :data:`NAMES`, with 40 queries and 160 passages each.

    A passage is about an animal at a place, as a query is. It has the grade 3 for that query if it
    is the first of its kind, and 1 or 2 otherwise; passages about the same animal elsewhere are
    judged 0; its answer is the place. The first has lists of candidates, by two first stages.
    """
    for name in NAMES:
        is_german = name.endswith("-de")
        animals, places = (GERMAN, GERMAN_PLACES) if is_german else (ANIMALS, PLACES)
        passage, query = (GERMAN_PASSAGE, GERMAN_QUERY) if is_german else (PASSAGE, QUERY)
        tails = GERMAN_TAILS if is_german else TAILS
        kinds = [{"animal": a, "place": p} for a, p in product(animals, places)]
        corpus = {
            f"d{number}-{at}": passage.format(**kind, tail=tail)
            for number, kind in enumerate(kinds)
            for at, tail in enumerate(tails)
        }
        queries = {f"q{number}": query.format(**kind) for number, kind in enumerate(kinds)}
        qrels = {
            f"q{number}": {
                f"d{other}-{at}": max(1, 3 - at) if other == number else 0
                for other in range(number // 5 * 5, number // 5 * 5 + 5)
                for at in range(len(tails))
            }
            for number in range(len(kinds))
        }
        write_collection(folder / name, corpus, queries, qrels)
        answers = [
            {"query_id": f"q{number}", "doc_id": f"d{number}-0", "answer": kind["place"]}
            for number, kind in enumerate(kinds)
        ]
        for row in answers:
            row["start"] = corpus[row["doc_id"]].index(row["answer"])
        write_lines(folder / name / "answers.jsonl", answers)
    for file in ("candidates", "candidates-contriever"):
        draw = random.Random(file)
        write_lines(folder / NAMES[0] / f"{file}.jsonl", first_stage(folder / NAMES[0], draw))
    return folder


def write_collection(
    folder: Path,
    corpus: Mapping[str, str],
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
) -> None:
    folder.mkdir(parents=True)
    documents = ({"id": key, "title": "", "text": text} for key, text in corpus.items())
    write_lines(folder / "corpus.jsonl", documents)
    write_lines(
        folder / "queries.jsonl", ({"id": key, "text": text} for key, text in queries.items())
    )
    rows = (f"{query}\t{key}\t{grade}\n" for query in qrels for key, grade in qrels[query].items())
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))


def first_stage(folder: Path, draw: random.Random) -> Iterable[dict[str, Any]]:
    """For each query all passages, those of its animal among the first ones."""
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    for line in (folder / "queries.jsonl").read_text().splitlines():
        query = json.loads(line)
        words = set(query["text"].split())
        keys = {one["id"]: len(words & {*one["text"].split()}) + draw.gauss(0, 1) for one in corpus}
        found = sorted(corpus, key=lambda one: -keys[one["id"]])[:100]
        items = [{**one, "score": 100.0 - at} for at, one in enumerate(found)]
        yield {"query_id": query["id"], "candidates": items}


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text(text, encoding="utf-8")


def write_pages(folder: Path, *languages: str) -> Path:
    """Write pages of a help in English and other languages, in the form of GNOME's."""
    for language, (animals, passage) in {
        "C": (ANIMALS, PASSAGE),
        **dict.fromkeys(languages, (GERMAN, GERMAN_PASSAGE)),
    }.items():
        pages = folder / language / "gnome-help"
        pages.mkdir(parents=True)
        for number, animal in enumerate(animals):
            texts = [passage.format(animal=animal, place=animal, tail=tail) for tail in TAILS]
            (pages / f"page{number}.page").write_text(
                '<page xmlns="http://projectmallard.org/1.0/">'
                f"<info><desc>{language} {animal}, {texts[0]}</desc></info>"
                f"<title>{language} {animal}</title>"
                + "".join(f"<p>{text}</p>" for text in texts)
                + "</page>",
                encoding="utf-8",
            )
    return folder
