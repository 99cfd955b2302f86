"""What an error of a request holds for its response."""

from secondpass_server.http.errors import (
    ClientGoneError,
    RequestError,
    TooManyTextsError,
)


def test_an_error_without_further_settings():
    error = RequestError(None, "query: is required")
    assert str(error) == error.message == "query: is required"
    assert (error.status, error.kind, error.headers, error.close) == (
        None,  # each API has its own
        "invalid_request",
        {},
        False,
    )


def test_headers_are_copied():
    headers = {"retry-after": "1"}
    error = RequestError(429, "x", "overloaded", headers=headers, close=True)
    headers.clear()
    assert (error.kind, error.headers, error.close) == (
        "overloaded",
        {"retry-after": "1"},
        True,
    )


def test_too_many_texts_have_their_numbers():
    error = TooManyTextsError("documents", 1001, 1000)
    assert str(error) == "documents: has 1001 texts; at most 1000 are accepted"
    assert (error.count, error.most, error.status, error.kind) == (
        1001,
        1000,
        None,
        "invalid_request",
    )


def test_a_client_that_has_gone_is_not_answered():
    assert not issubclass(ClientGoneError, RequestError)
