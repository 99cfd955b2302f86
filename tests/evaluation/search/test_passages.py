"""Texts are split at paragraphs, sentences and words, and nothing is lost."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secondpass_evaluation.search.documents import read_source

shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

marks = st.sampled_from(["#", "##", "```", "-", "=", ".", "。", "\n", "\n\n", " ", "<p>", "<h1>"])
any_words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)
documents = st.lists(st.one_of(any_words, marks), max_size=30).map(" ".join) | st.lists(
    st.one_of(any_words, marks), max_size=30
).map("\n".join)


@shared_folder
@given(documents, st.integers(50, 90), st.sampled_from(["a.md", "a.txt"]))
def test_passages_lose_nothing_and_keep_to_the_size(tmp_path, text, size, name) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    corpus = read_source(tmp_path / name, passage_size=size).corpus
    assert [candidate.id for candidate in corpus] == [
        f"{name}#{n}" for n in range(1, len(corpus) + 1)
    ]
    assert all(0 < len(candidate.text) <= size for candidate in corpus)
    kept = "".join("".join(candidate.text for candidate in corpus).split())
    given_text = "".join(text.split())
    if name == "a.txt" or "---" not in text:
        assert kept == given_text


def test_passages_end_at_paragraphs_sentences_or_words(tmp_path) -> None:
    (tmp_path / "a.txt").write_text(
        f"{'a' * 30}\n\n{'b' * 30}\n\n{'c' * 10}\n\nOne two three four five six seven. Eight nine "
        f"ten eleven twelve thirteen fourteen\n\n{'d ' * 40}\n\n{'e' * 120}"
    )
    assert [candidate.text for candidate in read_source(tmp_path, passage_size=50).corpus] == [
        "a" * 30,
        f"{'b' * 30}\n\n{'c' * 10}",
        "One two three four five six seven.",
        "Eight nine ten eleven twelve thirteen fourteen",
        ("d " * 25).strip(),
        ("d " * 15).strip(),
        "e" * 50,
        "e" * 50,
        "e" * 20,
    ]


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ("他说\uff1a“好。”" * 9, ["他说\uff1a“好。”" * 7, "他说\uff1a“好。”" * 2]),
        ("春天来了、花" * 10, ["春天来了、花" * 7 + "春天来了、", "花春天来了、花春天来了、花"]),
        ("春" * 120, ["春" * 50, "春" * 50, "春" * 20]),
        ("กี่" * 20, ["กี่" * 16, "กี่" * 4]),
        ("សួស្តី។" * 10, ["សួស្តី។" * 7, "សួស្តី។" * 3]),
    ],
)
def test_passages_of_languages_without_spaces(tmp_path, text, passages) -> None:
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    assert [
        candidate.text for candidate in read_source(tmp_path, passage_size=50).corpus
    ] == passages
