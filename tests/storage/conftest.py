"""Each test of a store runs for both kinds, in a file that does not exist yet."""

import pytest

from store_kinds import KINDS


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"
