"""Parts, control tokens and cuts of what a described model reads."""

import pytest

import family_models as families
from secondpass import ModelLoadError
from secondpass.scorers.families.descriptions import Input
from secondpass.scorers.torch.family_inputs import FamilyInputs, token_id
from secondpass.settings import from_mapping

PARTS = ["<|im_start|>", {"text": "q: $query", "at_most": 0.5}, " d: $passage"]


LIST = {
    "of": "list",
    "parts": ["q: $query", {"text": " d: $passage", "each": True}],
    "block": 8,
    "passage": {"tokens": 30},
}


def row_of(first, second, *, limit=None, asked=None, **spec):
    tokenizer = families.bytes_tokenizer()
    described = {"of": "pair", "parts": PARTS, "control": "<|im_start|>", **spec}
    inputs = FamilyInputs(
        "m", from_mapping(Input, described), tokenizer, positions=512, max_length=limit
    )
    render = inputs.lists if described["of"] == "list" else inputs.pairs
    [row] = render(first, [second], asked)
    return tokenizer, row


def rendered(first, second, **settings):
    tokenizer, row = row_of(first, second, **settings)
    return tokenizer.decode(row.ids), len(row.ids), bool(row.cut)


@pytest.mark.parametrize(
    ("spec", "query", "passage", "expected"),
    [
        ({}, "a", "b", "<|im_start|>q: a d: b"),
        ({}, "", "", "<|im_start|>q:  d: "),
        ({"strip": True}, " a\n", " b ", "<|im_start|>q: a d: b"),
        ({"delete": "<|im_end|>"}, "a<|im_end|>", "b", "<|im_start|>q: a d: b"),
        ({"query": {"characters": 2}}, "abc", "b", "<|im_start|>q: ab d: b"),
        ({"parts": ["$$$query", "$passage"]}, "a", "b", "$ab"),
    ],
)
def test_parts(spec, query, passage, expected):
    assert rendered(query, passage, **spec)[0] == expected


def test_special_tokens_are_around_the_whole():
    from tokenizers import processors

    tokenizer = families.bytes_tokenizer()
    number = tokenizer.convert_tokens_to_ids("<|im_end|>")
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_end|> $A", special_tokens=[("<|im_end|>", number)]
    )
    spec = from_mapping(Input, {"of": "pair", "parts": PARTS[1:], "special_tokens": True})
    inputs = FamilyInputs("m", spec, tokenizer, positions=64, max_length=None)
    [row] = inputs.pairs("a", ["b"])
    assert tokenizer.decode(row.ids) == "<|im_end|>q: a d: b"


@pytest.mark.parametrize(
    ("query", "passage", "settings", "query_cut", "cut"),
    [
        (2, 2, {}, False, False),
        (2, 60, {}, False, True),
        (60, 2, {}, True, False),  # by the share of its part
        (60, 60, {}, True, True),
        (60, 2, {"query": {"characters": 20}}, True, False),
        (2, 60, {"passage": {"tokens": 20}}, False, True),
        (2, 60, {"parts": ["$passage | $query ?"]}, False, True),
        (60, 2, {"parts": ["$passage | $query ?"]}, True, False),
        (2, 60, {"of": "own", "parts": []}, False, True),  # composed and cut by the tokenizer
        (60, 2, {"of": "own", "parts": []}, True, False),
        (60, 60, {"of": "own", "parts": []}, True, True),
        (60, 2, {**LIST, "query": {"characters": 20}}, True, False),
        (2, 60, LIST, False, True),
    ],
)
def test_which_text_is_cut(query, passage, settings, query_cut, cut):
    _, row = row_of("a " * query, "b " * passage, limit=60, **settings)
    assert row.query_cut is query_cut
    assert bool(row.cut) is cut


def test_cuts_keep_the_beginning_of_each_part():
    text, size, cut = rendered("a " * 60, "b " * 60, limit=40)
    assert (size, cut) == (40, True)
    assert text.startswith("<|im_start|>q: a a")
    assert " d: b b" in text
    assert rendered("a", "b", limit=40)[2] is False
    text, size, _ = rendered("a " * 60, "b " * 60, limit=30, parts=["$passage | $query ?"])
    assert size <= 30
    assert text.endswith(" ?")
    assert text.startswith("b b")


def test_reserve_and_room():
    spec = {"parts": ["$query $passage", {"text": "the end", "room": 1}]}
    _, whole, _ = rendered("a", "b " * 60, limit=20, **spec)
    _, less, _ = rendered("a", "b " * 60, limit=20, reserve=4, **spec)
    assert whole - less == 4
    assert whole > 20


def test_the_plain_form_is_for_calls_without_an_instruction():
    spec = {"parts": [{"text": "[$instruction] $query", "plain": "$query"}, " $passage"]}
    assert rendered("a", "b", **spec)[0] == "a b"
    assert rendered("a", "b", asked="i", **spec)[0] == "[i] a b"


def test_tokens_are_single_tokens_of_the_model():
    tokenizer = families.bytes_tokenizer()
    assert token_id("m", tokenizer, "yes") == tokenizer.convert_tokens_to_ids("yes")
    assert token_id("m", tokenizer, 0) == 0
    with pytest.raises(ModelLoadError, match="has 5 tokens in place of 'zebra'"):
        token_id("m", tokenizer, "zebra")
    with pytest.raises(ModelLoadError, match="has no token 99999: its vocabulary has"):
        token_id("m", tokenizer, 99_999)
