"""Keys given in Python, and the names of their variables."""

import copy
import pickle

import pytest

from secondpass import ConfigurationError, NotSerializableError, Reranker
from secondpass.settings import Secret, first_set, variables

KEY = "sk-test-SECRET-123"


class Revealing:
    """As pydantic's SecretStr."""

    def get_secret_value(self):
        return f" {KEY}\n"


def cross_encoder(**settings):
    return Reranker({"type": "cross_encoder", "model": "some/m", **settings}).method.scorer


@pytest.mark.parametrize("key", [KEY, Secret(KEY), Revealing()], ids=["text", "own", "foreign"])
def test_takes_a_key(key):
    token = cross_encoder(token=key).token
    assert token == Secret(KEY)
    assert token.reveal() == KEY
    assert KEY not in repr(token) + repr(vars(cross_encoder(token=key)))


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy])
def test_is_never_written(copied):
    with pytest.raises(NotSerializableError):
        copied(Secret(KEY))


@pytest.mark.parametrize("key", ["", "  ", 5, ["k"]])
def test_other_keys_are_refused(key):
    with pytest.raises(ConfigurationError, match=r"method\.token: give a key, a string"):
        cross_encoder(token=key)


NAMES = {
    "number": (5, "give the name of a variable or a list of names, not 5"),
    "list with a number": (["A", 1], "give the name of a variable, not the key"),
    "empty": ("", "give the name of a variable, not the key"),
    "no names": ([], "give the name of a variable, not the key"),
    "a key": (KEY, "give the name of a variable, not the key"),
    "a hub token": ("hf_abcdefghijklmnop", "give the name of a variable, not the key"),
}


@pytest.mark.parametrize(("names", "message"), NAMES.values(), ids=NAMES)
def test_wrong_names_are_refused(names, message):
    with pytest.raises(ConfigurationError) as caught:
        cross_encoder(token_env=names)
    assert str(caught.value) == f"Reranker: method.token_env: {message}"


def test_the_first_set_variable_counts(monkeypatch):
    monkeypatch.delenv("ABSENT", raising=False)
    monkeypatch.setenv("EMPTY", " ")
    monkeypatch.setenv("HELD", " key ")
    assert first_set(["ABSENT", "EMPTY", "HELD"]) == "key"
    assert first_set(["ABSENT"]) is None


def test_names_of_a_setting():
    assert [variables(setting) for setting in (None, "A", ["A", "B"])] == [(), ("A",), ("A", "B")]
