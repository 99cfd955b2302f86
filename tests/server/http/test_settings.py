"""Names and addresses of this machine, and whether clients need a key."""

import pytest

from secondpass_server.http.settings import is_loopback


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.7", False),
        ("localhost.example.com", False),
        ("", False),
    ],
)
def test_loopback(host, expected):
    assert is_loopback(host) == expected
