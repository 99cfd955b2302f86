"""Why a reply ended, in the words of providers and frameworks."""

from enum import Enum

import pytest

from secondpass.errors import LLMError
from secondpass.llms.finish_reasons import check_answered, is_truncated


class Reason(Enum):
    MAX_TOKENS = "MAX_TOKENS"
    SAFETY = "SAFETY"


LENGTH = ["length", "model_length", "max_tokens", "model_context_window_exceeded"]
REFUSED = ["content_filter", "refusal", "safety"]
OTHERS = ["stop", "end_turn", "", None, 5, ["length"], object()]


@pytest.mark.parametrize("reason", [*LENGTH, "LENGTH", Reason.MAX_TOKENS])
def test_truncated(reason):
    assert is_truncated(reason)
    check_answered(reason)


@pytest.mark.parametrize("reason", [*REFUSED, "SAFETY", Reason.SAFETY])
def test_refused(reason):
    assert not is_truncated(reason)
    with pytest.raises(LLMError, match="refused") as caught:
        check_answered(reason)
    assert caught.value.code == "content_filter"


@pytest.mark.parametrize("reason", OTHERS)
def test_others(reason):
    assert not is_truncated(reason)
    check_answered(reason)
