import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass.scorers.embedding import packing
from secondpass.scorers.embedding.encoder import DIMENSIONS, unit
from secondpass.scorers.embedding.similarity import Text, list_scores, match

COMMON = np.random.default_rng(0).normal(size=DIMENSIONS)


def text(seed, tokens=5, sentences=2, readable=True):
    """A text of random vectors, in sentences of one word."""
    random = np.random.default_rng(seed)
    # Vectors of a model point one way, more or less.
    states = (random.normal(size=(tokens, DIMENSIONS)) + COMMON).astype(np.float32)
    ids = random.integers(0, 30_000, size=tokens)
    first = (0, *sorted(random.choice(np.arange(1, tokens), min(sentences, tokens) - 1, False)))
    spans = [(10 * number, 10 * number + 8) for number in range(len(first))]
    if not readable:
        return Text(
            np.zeros(DIMENSIONS, np.float32),
            np.zeros_like(states),
            np.full(tokens, 1 / tokens),
            np.full(tokens, -1),
        )
    return Text(
        unit(states.mean(axis=0)),
        unit(states),
        np.full(tokens, 1 / tokens, dtype=np.float32),
        ids,
        spans,
        first,
    )


texts = st.builds(
    text,
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.integers(1, 4),
    st.sampled_from([True, True, True, False]),
)


def record(passage, name="a passage"):
    return packing.unpack(packing.pack(passage, name))


def packed_match(query, passage, name="a passage"):
    (found,) = packing.matches(query, [record(passage, name)], [name])
    return found


@given(texts, st.booleans())
def test_a_record_has_what_a_match_needs(passage, truncated):
    found = record(passage._replace(truncated=truncated))
    assert found.truncated is truncated
    assert found.first.tolist() == [*passage.first]
    assert found.sentences.tolist() == [[*span] for span in passage.sentences]
    assert len(found.codes) == len(passage.tokens) * DIMENSIONS // 4
    assert len(found.ids) == len({*passage.ids.tolist()} - {-1})


@given(texts, texts)
def test_packed_scores_are_near_the_real_ones(query, passage):
    packed, real = packed_match(query, passage), match(query, passage)
    assert packed.cosine == pytest.approx(real.cosine, abs=0.005)
    assert packed.best == pytest.approx(real.best, abs=0.1)
    assert (packed.present == real.present).all()
    assert packed.mean == pytest.approx(real.mean, abs=0.005)


@given(texts)
def test_a_vector_and_its_packed_form_have_the_product_one(passage):
    """As the vector has with itself: the scale keeps the length in its direction."""
    assert packed_match(passage, passage).best == pytest.approx(
        match(passage, passage).best, abs=2e-3
    )


@given(texts, st.lists(texts, min_size=1, max_size=8), st.data())
def test_the_score_of_a_record_depends_on_no_other(query, passages, data):
    names = [f"passage {number}" for number in range(len(passages))]
    records = [*map(record, passages, names)]
    alone = [
        packing.matches(query, [one], [name])[0] for one, name in zip(records, names, strict=True)
    ]
    order = data.draw(st.permutations(range(len(passages))))
    together = packing.matches(query, [records[i] for i in order], [names[i] for i in order])
    for place, found in zip(order, together, strict=True):
        expected = alone[place]
        assert found.cosine == expected.cosine
        assert (found.best == expected.best).all()
        assert (found.present == expected.present).all()
        assert found.span == expected.span
        settings = {"feedback": 0, "idf": False}
        assert list_scores([found], **settings) == list_scores([expected], **settings)


def test_lists_of_any_length_have_the_same_scores():
    """Blocks of matrices bound the memory, and BLAS computes each of its own size differently."""
    query = text(1, tokens=9)
    passages = [text(seed, tokens=1 + seed % 90) for seed in range(260)]
    names = [f"passage {number}" for number in range(260)]
    records = [*map(record, passages, names)]
    together = packing.matches(query, records, names)
    for number in (0, 99, 100, 101, 259):
        (alone,) = packing.matches(query, [records[number]], [names[number]])
        assert (alone.best == together[number].best).all()
        assert alone.cosine == together[number].cosine


@given(texts, texts)
def test_sums_are_those_of_whole_numbers(query, passage):
    found = record(passage)
    packed = packing._PackedQuery(query)
    codes = np.frombuffer(found.codes, np.uint8).reshape(len(passage.tokens), -1)
    numbers = np.concatenate([(codes >> shift) & 3 for shift in (0, 2, 4, 6)], axis=1)
    whole = (2 * numbers.astype(np.int64) - 3) @ packed.tokens.astype(np.int64).T
    assert np.abs(whole).max() < 2**24
    scaled = whole.astype(np.float32) * found.scales.astype(np.float32)[:, None]
    assert (packing._products(packed, [found]) == scaled * packed.scales[None, :]).all()


@given(texts)
def test_ids_cannot_be_read_without_the_passage(passage):
    readable = passage.ids >= 0
    assert (packed_match(passage, passage).present == readable).all()
    (found,) = packing.matches(passage, [record(passage)], ["another passage"])
    assert not found.present.any()


@given(texts, st.text(max_size=20))
def test_no_record_is_larger_than_announced(passage, name):
    name += "x" * len(passage.tokens)  # each token has a character
    data = packing.pack(passage, name)
    assert len(data) <= packing.largest_size(name, 512)
