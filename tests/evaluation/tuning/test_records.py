"""Records of what was tried."""

import pytest

from tuning_results import ADOPTED, FRONT, NOT_TRIED, tuning


def test_trials_by_name():
    assert tuning()["words"] is ADOPTED
    with pytest.raises(KeyError, match="none"):
        tuning()["none"]


@pytest.mark.parametrize("record", [ADOPTED, NOT_TRIED, *FRONT], ids=lambda record: record.name)
def test_plain_values_without_keys(record):
    values = record.to_dict()
    assert values.keys() == {*record.__slots__}
    assert (values["config"] is None) == (record.config is None)
    assert "sk-secret" not in str(values)
    assert "sk-secret" not in repr(record)


def test_held_out_gains_are_plain():
    assert ADOPTED.to_dict()["held"]["mean"] == 0.1
    assert NOT_TRIED.to_dict()["held"] is None
