"""The words of the documentation, of help texts and of messages: a reader new to the field follows.

A page joins :data:`PAGES` when it keeps to all of it, and a file of the source :data:`SOURCES`.
"""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

ROOT = Path(__file__).parents[2]

PAGES = [
    "README.md",
    "SECURITY.md",
    "docs/coming-from.md",
    "docs/command.md",
    "docs/configuration.md",
    "docs/decision-models.md",
    "docs/evaluation.md",
    "docs/evidence.md",
    "docs/extend.md",
    "docs/glossary.md",
    "docs/haystack.md",
    "docs/how-to/adapters.md",
    "docs/how-to/before-and-after.md",
    "docs/how-to/caching-and-concurrency.md",
    "docs/how-to/mcp.md",
    "docs/how-to/production.md",
    "docs/how-to/prompt.md",
    "docs/how-to/ray.md",
    "docs/index.md",
    "docs/language-models.md",
    "docs/llama_index.md",
    "docs/meanings.md",
    "docs/models.md",
    "docs/monitoring.md",
    "docs/rerank-apis.md",
    "docs/security.md",
    "docs/serve.md",
    "docs/start.md",
    "docs/thresholds.md",
    "docs/troubleshooting.md",
    "docs/tutorial.md",
    "docs/versions.md",
    "docs/which-method.md",
    *(
        page.relative_to(ROOT).as_posix()
        for pattern in ("examples/**/README.md", "integrations/*/README.md")
        for page in sorted(ROOT.glob(pattern))
    ),
]
"""Pages that keep to :data:`PATTERNS`, :data:`TERMS` and the rules of sentences."""

SOURCES: tuple[str, ...] = (
    "secondpass/cli",
    "secondpass_evaluation/cli/calibrate.py",
    "secondpass_evaluation/cli/evaluate.py",
    "secondpass_evaluation/cli/example.py",
    "secondpass_evaluation/cli/index.py",
    "secondpass_evaluation/cli/judge.py",
    "secondpass_evaluation/cli/query.py",
    "secondpass_evaluation/cli/store.py",
    "secondpass_evaluation/cli/tune.py",
    "secondpass_evaluation/report",
    "secondpass_evaluation/tuning",
    "secondpass_evaluation/calibration/result.py",
    "secondpass_evaluation/calibration/calibrating.py",
    "secondpass_ray/cli.py",
    "secondpass_server/cli",
)
"""Files or folders of the source whose help texts, messages and verdicts keep to the patterns."""

PATTERNS = {
    r"\b(?:that|those) of\b": "name the thing again",
    r"\bof (?:which|whom|whose)\b": "two sentences",
    r"\bof (?:yours|ours|mine|theirs|one's own|your own)\b": "your …",
    r"\bby oneself\b": "yourself",
    r"[,;(] ?else\b|\bor else\b": "or, without it, …; otherwise …",
    r"\bbehind (?:BM25|vectors?|hybrid|(?:the|a|each|every|any|another|several) "
    r"(?:\w+ )?(?:search|stage|stages|first))\b": "after",
    r"\b(?:the|a) hub\b": "Hugging Face",
    r"\bqrels?\b": "judgements",
    r"\b(?:dear|hindmost|anew|thereof|therein|whereby|to be had)\b": "a common word",
    r"\bmay not show\b|\bdo(?:es)? not show\b": "can go unnoticed",
    r"\b(?:is|are) given by\b": "who does it?",
    r"\bwhat of\b": "which part",
    r"\bof the first two\b|\bof these two\b": "name them",
}
"""Patterns that no prose has -> what to write instead."""

WORDS = {
    "floor": "threshold",
    "gate": "condition",
    "backfilled": "missing",
    "exchangeable": "like",
    "regret": "loss",
}
"""Words that are names in code only -> what prose says instead."""

TERMS = {
    r"\bBM25\b": r"words",
    r"\bnDCG@10\b": r"first ten|top ten|first 10",
    r"\bcross-encoders?\b": r"together",
    r"\bfirst stages?\b": r"search",
    r"\b(?:second|2nd) pass\b": r"again|rerank",
    r"\blogits?\b": r"minus infinity|any size|unlimited|even odds",
    r"\bhybrid\b": r"both|words and (?:by )?vectors|and vectors|fuse|BM25 and",
    r"\bsuite\b": r"queries|questions",
    r"\bcascade\b": r"stage|row|then",
    r"\btail\b": r"rest|others|beyond|not reranked",
    r"\bspan\b": r"part of",
    r"\bHolm\b": r"several|more than one|many",
    r"\bheld[- ]out\b": r"not used|no part",
    r"\bpools?\b": r"results",
    r"\bpresets?\b": r"name|configuration",
    r"\bblend(?:ed|s)?\b": r"weight|mix|sum",
    r"\bfallbacks?\b": r"fail|nothing|next",
    r"\bthresholds?\b": r"score|drop",
    r"\bjudgements?\b": r"relevant|answer|question",
    r"\bcorpus\b": r"documents|texts",
}
"""Terms -> words of an explanation, one of which stands where the page first has the term: in the
same paragraph, list or table."""

VERBS = (
    "Is|Are|Was|Has|Counts|Gives|Goes|Holds|Keeps|Makes|Needs|Prints|Reads|Requires|Returns|Runs|Says|"
    "Sets|Shows|Takes|Uses|Writes"
)
"""Words with which a sentence begins that lacks its subject; questions are headings or items."""

LONGEST = 38
"""Words in a sentence, at most."""


class Piece(NamedTuple):
    """A paragraph, list item, table row or heading."""

    line: int
    kind: str
    text: str


def without_code(text):
    """The text with blanks in place of code, comments and addresses; lines keep their numbers."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())

    text = re.sub(r"^ *```.*?^ *```", blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.DOTALL)
    text = re.sub(r"^\[[^\]]+\]: .*$|^    .*$", blank, text, flags=re.MULTILINE)
    text = re.sub(r"`+[^`]*`+", lambda found: "`" + "\n" * found.group().count("\n"), text)
    text = re.sub(r"<[^>\n]*>", "", text)
    return re.sub(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", text)


def pieces(text):
    """The paragraphs, list items, rows and headings of a page."""
    found: list[Piece] = []
    previous = ""
    for number, line in enumerate(without_code(text).splitlines(), 1):
        kind = (
            "row" if line.startswith("|")
            else "item" if re.match(r" *(?:[-*]|\d+\.) ", line)
            else "heading" if line.startswith("#")
            else "text"
        )  # fmt: skip
        if line.strip():
            if kind == "text" and previous in ("text", "item"):
                last = found.pop()
                found.append(last._replace(text=f"{last.text}\n{line}"))
                kind = previous
            else:
                found.append(Piece(number, kind, line))
        previous = kind if line.strip() else ""
    return found


def sentences(piece):
    """The sentences of a piece; each cell of a row has its own."""
    parts = piece.text.split("|") if piece.kind == "row" else [piece.text]
    for part in parts:
        text = re.sub(r"^ *(?:[-*]|\d+\.|#+) +", "", part)
        text = re.sub(r"\b(?:e\.g|i\.e|et al|vs|cf)\.", lambda found: found.group()[:-1], text)
        yield from (re.sub(r"\s+", " ", one).strip() for one in re.split(r"(?<=[.!?])\W*\s+", text))


def explained(term, explanation, found):
    """Whether an explanation stands in the same block (paragraph, list, table) as the first use."""
    first = next((place for place, piece in enumerate(found) if re.search(term, piece.text)), None)
    if first is None:
        return True
    start = stop = first
    while found[start].kind == found[start - 1].kind != "text" and start:
        start -= 1
    while stop + 1 < len(found) and found[stop + 1].kind == found[first].kind != "text":
        stop += 1
    if found[first].kind == "heading":  # the paragraph below it
        stop = min(first + 1, len(found) - 1)
    return any(re.search(explanation, piece.text) for piece in found[start : stop + 1])


def faults(text):
    """The faults of a page: line and what to do."""
    found = pieces(text)
    for piece in found:
        flat = re.sub(r"\s+", " ", piece.text)
        for pattern, advice in PATTERNS.items():
            for match in re.finditer(pattern, flat, re.IGNORECASE):
                yield f"{piece.line}: {match.group().strip()!r}: {advice}"
        for word in words_of(piece.text):
            yield f"{piece.line}: {word!r}: {WORDS[word.removesuffix('s')]}"
        if piece.kind == "text" and re.match(r"(?!secondpass|nDCG)[a-z]", piece.text):
            yield f"{piece.line}: {flat[:30]!r}: a sentence with a subject"
        for sentence in sentences(piece):
            if piece.kind == "text" and re.match(rf"(?:{VERBS})\b", sentence):
                yield f"{piece.line}: {sentence[:30]!r}: a sentence with a subject"
            length = len(re.findall(r"[\w`]+(?:['.-]\w+)*", sentence))
            if length > LONGEST:
                yield f"{piece.line}: {length} words in {sentence[:50]!r}: two sentences"
            if sentence.count(";") > 1:
                yield f"{piece.line}: {sentence[:50]!r}: one semicolon, or a list"
    for term, explanation in TERMS.items():
        if not explained(term, explanation, found):
            yield f"{term}: explain it where it first stands ({explanation})"


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_easy_to_follow(page):
    assert list(faults((ROOT / page).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Each passage has a score. It is a number.", 0),
        ("The order is that of the\nretriever.", 1),
        ("`that of` is code.\n\n```text\nthose of\n```", 0),
        ("The floor of the score.", 1),
        ("| key | meaning |\n| --- | --- |\n| `floor` | those of it |", 1),
        ("```python\ncode\n```\n\nfits the number.", 1),
        ("A " + "word " * 38 + ".", 1),
        ("One; two; three.", 1),
        ("This is a command. Returns its result.", 1),
        ("It ranks by BM25.", 1),
        ("It ranks by BM25, which counts words.", 0),
        ("- a cascade\n- methods in a row", 0),
    ],
)
def test_faults_are_found(text, number):
    assert len(list(faults(text))) == number


# ---------------------------------------------------------------------- the source


def words_of(text):
    """The words of :data:`WORDS` in prose; names in code and lists of attributes are none."""
    prose = re.sub(r"`+[^`]*`+|\]\([^)]*\)|^ *\w+:|\bFloor\b", "", text, flags=re.MULTILINE)
    forbidden = {*WORDS, *(f"{word}s" for word in WORDS)}
    return set(re.findall(r"\w+", prose.lower())) & forbidden


OTHER_MEANINGS = ("asking", "concurrency", "batching", "conformal.py")
"""Parts of the source where one of the words is another thing, or a term of statistics."""


def test_pages_for_users_have_one_word_for_one_thing():
    config = yaml.load(
        re.sub("!ENV", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")), yaml.SafeLoader
    )
    others = (*config["not_in_nav"].split(), "api/", "settings.md", "publishing/")
    for page in (ROOT / "docs").rglob("*.md"):
        if page.relative_to(ROOT / "docs").as_posix().startswith(others):
            continue
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        assert words_of(text) == set(), page.name


def strings(path):
    """The string constants of a file that may be prose, with their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and " " in str(node.value):
            yield node.lineno, str(node.value)


def test_messages_help_and_docstrings_have_the_same_words():
    for source in (ROOT / "src", *(ROOT / "integrations").glob("*/src")):
        for path in source.rglob("*.py"):
            if {*path.parts}.isdisjoint(OTHER_MEANINGS):
                for line, text in strings(path):
                    assert words_of(text) == set(), f"{path.name}:{line}"


@pytest.mark.parametrize("source", SOURCES)
def test_messages_and_help_have_no_pattern(source):
    path = ROOT / "src" / source
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        for line, text in strings(file):
            prose = re.sub(r"\s+", " ", without_code(text))
            for pattern, advice in PATTERNS.items():
                match = re.search(pattern, prose, re.IGNORECASE)
                assert match is None, f"{file.name}:{line}: {match!r}: {advice}"
