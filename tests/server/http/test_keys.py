"""Keys: which are accepted, how they are sent, how they are changed."""

import hmac
import os

import pytest

from secondpass import ConfigurationError
from secondpass_server.http.errors import RequestError
from secondpass_server.http.keys import Keys
from secondpass_server.http.settings import ServerSettings

OLD, NEW = "old-key-0001", "new-key-0002"


@pytest.fixture(autouse=True)
def _variables(monkeypatch):
    monkeypatch.setenv("SERVER_KEYS", f"{OLD}, {NEW}")
    monkeypatch.setenv("SERVER_BLANK", " ")
    monkeypatch.setenv("SERVER_ACCENTS", "clé-des-champs")
    monkeypatch.setenv("SERVER_SHORT", f"{OLD},short")


def accepted(keys, value, name="authorization"):
    try:
        keys.check({name: value})
    except RequestError as error:
        assert error.status == 401
        assert "WWW-Authenticate" in error.headers
        return False
    return True


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("authorization", f"Bearer {OLD}", True),
        ("authorization", f"bearer  {NEW} ", True),
        ("authorization", NEW, True),
        ("x-api-key", NEW, True),
        ("authorization", f"Bearer {NEW}x", False),
        ("authorization", f"Bearer {NEW[:-1]}", False),
        ("authorization", f"Basic {NEW}", False),
        ("authorization", "Bearer", False),
        ("authorization", f"Bearer {OLD}, {NEW}", False),
        ("authorization", "Bearer é\udcff", False),
        ("other", NEW, False),
    ],
)
def test_headers(name, value, expected):
    assert accepted(Keys(ServerSettings(api_key_env="SERVER_KEYS")), value, name) == expected


def test_no_key_is_demanded_without_settings():
    assert accepted(Keys(ServerSettings()), "anything")


def test_every_key_is_compared_in_constant_time(monkeypatch):
    compared = []

    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(b) or compare(a, b))
    assert accepted(Keys(ServerSettings(api_key_env="SERVER_KEYS")), OLD)
    assert compared == [OLD.encode(), NEW.encode()]


def test_a_file_is_read_again_when_it_changes(tmp_path, caplog):
    path = tmp_path / "keys"
    path.write_text(f"# clients\n{OLD}\n")
    now = [0.0]
    keys = Keys(ServerSettings(api_key_file=str(path)), clock=lambda: now[0])

    def change(text):
        path.write_text(text)
        os.utime(path, ns=(0, int(now[0] * 1e9) + 7))
        now[0] += 2

    assert (accepted(keys, OLD), accepted(keys, NEW)) == (True, False)
    change(f"{OLD}\n{NEW}\n")
    assert (accepted(keys, OLD), accepted(keys, NEW)) == (True, True)
    change(f"{NEW}\n")
    assert (accepted(keys, OLD), accepted(keys, NEW)) == (False, True)
    change("")  # being written: the keys that were read last remain
    assert accepted(keys, NEW)
    path.unlink()
    now[0] += 2
    assert accepted(keys, NEW)
    (record,) = caplog.records  # told once
    assert f"the previous keys remain valid: API keys in {path}: has no" in record.getMessage()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"api_key_env": "SERVER_UNSET"}, "the variable SERVER_UNSET: has no key"),
        ({"api_key_env": "SERVER_BLANK"}, "the variable SERVER_BLANK: has no key"),
        ({"api_key_env": "SERVER_SHORT"}, "a key is too short; give each 8 characters or more"),
        ({"api_key_env": "SERVER_ACCENTS"}, "the variable SERVER_ACCENTS: a key is not ASCII"),
        ({"api_key_file": "/nonexistent/keys"}, "API keys in /nonexistent/keys: cannot be read"),
    ],
)
def test_settings_without_a_usable_key(settings, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        Keys(ServerSettings(**settings))
    assert OLD not in str(caught.value)
