"""Requests under way are bounded by number and by bytes."""

import pytest

from secondpass_server.http.admission import Admission
from secondpass_server.http.errors import RequestError
from secondpass_server.http.settings import ServerSettings


def test_a_place_is_free_again():
    admission = Admission(ServerSettings(max_requests=2))
    with admission.slot(), admission.slot():
        with pytest.raises(RequestError) as caught, admission.slot():
            pass
        assert (caught.value.status, caught.value.kind) == (429, "overloaded")
        assert "2 requests are under way" in caught.value.message
    assert admission.requests == 0
    with admission.slot():
        assert admission.requests == 1


def test_bytes_of_all_bodies():
    admission = Admission(ServerSettings(max_total_bytes=100))
    with admission.slot() as one:
        one.add(60)
        with admission.slot() as other:
            other.add(30)
            with pytest.raises(RequestError, match="too large"):
                other.add(30)
        assert admission.bytes == 60  # what the other had sent is given back
    assert admission.bytes == 0


def test_one_body_alone_may_be_larger():
    """Or it would never be answered; the bound of one body is another setting."""
    admission = Admission(ServerSettings(max_total_bytes=100))
    with admission.slot() as one:
        one.add(90)
        one.add(90)
        assert admission.bytes == 180


@pytest.mark.parametrize(
    ("seconds", "wait"),
    [([], "1"), ([0.2], "1"), ([4.0], "4"), ([4.0, 14.0], "5"), ([900.0], "30")],
    ids=repr,
)
def test_retry_after_is_the_mean_duration(seconds, wait):
    admission = Admission(ServerSettings())
    for one in seconds:
        admission.add_duration(one)
    error = admission.overloaded("there is no room")
    assert error.headers == {"Retry-After": wait}
    assert error.message == f"there is no room; try again in {wait} s"
