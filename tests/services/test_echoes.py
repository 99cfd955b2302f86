"""Parts of a request are found in a server's text, however it escapes them."""

import base64
from urllib.parse import quote

import pytest

from secondpass.services.diagnosis import RUN, Sent
from sent_texts import ESCAPES, KEY, PASSAGE, QUERY, SENT


@pytest.mark.parametrize("escape", [name for name in ESCAPES if name != "no white space"])
def test_echoes_are_removed(escape):
    text = f"context_length_exceeded: {ESCAPES[escape](PASSAGE)} | the end"
    left = SENT.removed_from(text)
    assert "context_length_exceeded" in left
    assert "the end" in left
    for word in ("wombats", "burrows", "1899"):
        if escape != "hyphens":
            assert word not in left.lower()


HELD = [
    (QUERY[:RUN], True),
    ("wheredothezeb", True),
    ("wheredothez", False),
    (f"unknown key {KEY[4:9]}", True),
    ("unknown model", False),
    ("", False),
]


@pytest.mark.parametrize(("text", "held"), HELD, ids=[row[0] for row in HELD])
def test_parts_of_a_request(text, held):
    assert SENT.holds_part_of(text) is held


def test_short_lines_count_as_whole_words():
    sent = Sent(["<query>zebra</query>\nowl"])
    assert sent.holds_part_of("nothing found for zebra.")
    assert sent.holds_part_of("OWL not found")
    assert not sent.holds_part_of("zebras and owls")


def test_further_keys():
    more = SENT.with_secrets(["token-XYZ", ""])
    assert more.holds_secret("bad TOKEN-xyz")
    assert more.holds_secret(KEY)
    assert not SENT.holds_secret("bad token-XYZ")


@pytest.mark.parametrize("escape", [name for name in ESCAPES if name != "no white space"])
def test_escaped_keys_are_found(escape):
    assert SENT.holds_secret(f"wrong: {ESCAPES[escape](KEY)}")


ENCODED = {
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "base64 without its end": lambda key: base64.b64encode(key.encode()).decode()[1:-3],
    "base64 for URLs": lambda key: base64.urlsafe_b64encode(key.encode()).decode().rstrip("="),
    "Bearer": lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
    "Basic": lambda key: "Basic " + base64.b64encode(f"user:{key}".encode()).decode(),
    "base64 in a URL": lambda key: quote(base64.b64encode(f"?>{key}".encode()).decode(), safe=""),
    "hexadecimal": lambda key: key.encode().hex(),
    "hexadecimal without its start": lambda key: key.encode().hex().upper()[1:],
    "hexadecimal with colons": lambda key: key.encode().hex(":"),
}


@pytest.mark.parametrize("encode", ENCODED)
@pytest.mark.parametrize("key", [KEY, "~?>secret<?~"])
def test_encoded_keys_are_found(encode, key):
    sent = Sent([], [key])
    assert sent.holds_secret(f"the header {ENCODED[encode](key)} is wrong")
    assert not sent.holds_secret(f"the header {ENCODED[encode]('another-one-9876')} is wrong")


@pytest.mark.parametrize("encode", ["base64", "base64 for URLs", "hexadecimal"])
def test_encoded_passages_are_found(encode):
    assert SENT.holds_part_of(ENCODED[encode](PASSAGE))
    assert not SENT.holds_part_of(ENCODED[encode]("something that was never sent to anybody"))


def test_very_long_requests_are_not_compared():
    assert Sent(["x y " * 300_000]).holds_part_of("no such model")
