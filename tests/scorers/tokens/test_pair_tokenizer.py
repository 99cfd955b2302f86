import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from secondpass import ModelLoadError
from secondpass.questions import RenderedText
from secondpass.scorers.tokens.pair_tokenizer import PairTokenizer, longest_first
from tiny_models import unigram, write_tokenizer

KINDS = ["bert", "roberta", "sentencepiece"]
WORDS = st.lists(
    st.sampled_from(["the", "cat", "sat", "mat", "xyz", "é", "[SEP]", "</s>", "a-b", "."]),
    max_size=90,  # more than 16 characters per token are cut before tokenizing
).map(" ".join)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizers")
    return {kind: write_tokenizer(folder / f"{kind}.json", kind) for kind in KINDS}


def reference(path, room):
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(room, strategy="longest_first")
    tokenizer.encode_special_tokens = True
    return tokenizer


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(data=st.data())
def test_equal_to_the_tokenizer_of_pairs(paths, kind, data):
    room = data.draw(st.sampled_from([12, 13, 24, 512]))
    query = data.draw(WORDS)
    passages = data.draw(st.lists(WORDS, max_size=4))
    ours = PairTokenizer(paths[kind], max_length=room)
    untruncated = reference(paths[kind], 10_000)
    inputs = frozenset({"input_ids", "attention_mask", "token_type_ids"})
    for pair, passage in zip(ours.pairs(query, passages), passages, strict=True):
        arrays = ours.arrays([pair], inputs)
        theirs = reference(paths[kind], room).encode(query, passage)
        assert arrays["input_ids"][0].tolist() == theirs.ids
        assert arrays["token_type_ids"][0].tolist() == theirs.type_ids
        assert pair.length == len(theirs.ids) == arrays["attention_mask"].sum()
        whole, kept = untruncated.encode(query, passage).sequence_ids, theirs.sequence_ids
        cut = [[0] if kept.count(part) < whole.count(part) else [] for part in (0, 1)]
        assert ours.truncated.queries(query, [passage]) == cut[0]
        assert ours.truncated.passages(query, [passage]) == cut[1]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("room", [12, 13])
def test_truncation_is_that_of_transformers(paths, room, side):
    from transformers import PreTrainedTokenizerFast

    theirs = PreTrainedTokenizerFast(tokenizer_file=str(paths["bert"]), truncation_side=side)
    ours = PairTokenizer(
        paths["bert"], max_length=room, truncates_left=side == "left", remember=100
    )
    for count in range(25):
        query, passages = "the " * count, ["cat " * other for other in range(25)]
        pairs = [(query, passage) for passage in passages]
        expected = theirs(pairs, truncation=True, max_length=room)
        for _ in range(2):  # the second time, passages are remembered
            pairs = ours.pairs(query, passages)
            ids = [ours.arrays([pair], frozenset({"input_ids"}))["input_ids"][0] for pair in pairs]
            assert [row.tolist() for row in ids] == expected["input_ids"]


def test_long_passages_are_cut_before_tokenizing(paths):
    tokenizer = PairTokenizer(paths["bert"], max_length=16, remember=10)
    (long,) = tokenizer.pairs("cat", ["the mat sat " * 100_000])
    (short,) = tokenizer.pairs("cat", ["the mat sat " * 10])
    assert long.passage.tolist() == short.passage.tolist()
    assert len(tokenizer._remembered) == 1  # texts are keys, so long ones are not kept


def test_what_is_cut_before_tokenizing_counts_as_cut(paths):
    """Of a text that the configuration wrote a part of, so many characters are few tokens."""
    tokenizer = PairTokenizer(paths["bert"], max_length=16)
    text = RenderedText("the " + " " * 2000 + "cat", ((0, 4),))
    for query, passage in ((text, "mat"), ("mat", text)):
        (pair,) = tokenizer.pairs(query, [passage])
        assert pair.length < 16
        assert tokenizer.truncated.queries(query, [passage]) == ([0] if query is text else [])
        assert tokenizer.truncated.passages(query, [passage]) == ([0] if passage is text else [])


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (5, 100, (5, 15)),
        (100, 5, (15, 5)),
        (50, 60, (10, 10)),
        (10, 11, (10, 10)),
        (30, 3, (17, 3)),
    ],
)
def test_longest_first(first, second, kept):
    assert longest_first(first, second, 20) == kept


@pytest.mark.parametrize("text", ["", "{}", '{"version": "1.0"}'])
def test_a_broken_file(tmp_path, text):
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json cannot be loaded"):
        PairTokenizer(path, max_length=16)


def test_no_room(paths):
    with pytest.raises(ModelLoadError, match="no room"):
        PairTokenizer(paths["bert"], max_length=3)


@pytest.mark.parametrize("attack", ["cat </s> dog", "</s></s>", "cat \uff1c/s\uff1e", "<pad><s>"])
def test_control_tokens_that_are_ordinary_pieces_stay_characters(tmp_path, attack):
    path = unigram(tmp_path / "tokenizer.json")
    ours = PairTokenizer(path, max_length=64)
    framed = RenderedText(f"</s> {attack}", ((0, 5),))
    plain, written, query = (
        ours.pairs("cat", [attack])[0],
        ours.pairs("cat", [framed])[0],
        ours.pairs(attack, ["dog"])[0],
    )
    assert not {0, 1, 2} & {*plain.passage.tolist()}
    assert written.passage.tolist().count(2) == 1  # what the configuration wrote
    assert query.head.tolist().count(2) == 2  # those between the texts
    assert query.head.tolist().count(0) == 1


def test_the_beginning_of_a_long_framed_text_is_cut_where_texts_lose_it(paths):
    ours = PairTokenizer(paths["bert"], max_length=16, truncates_left=True)
    text = RenderedText("the " + "cat " * 3000 + "dog ran", ((0, 4),))
    (pair,) = ours.pairs("mat", [text])
    words = [ours._tokenizer.id_to_token(number) for number in pair.passage]
    assert (words[0], words[-2:]) == ("the", ["dog", "ran"])
    assert len(words) == 12
