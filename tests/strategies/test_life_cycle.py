"""Life cycle of methods."""

import pytest

from fakes import ByTable
from secondpass import MissingExtraError
from secondpass.methods import to_method
from secondpass.strategies.life_cycle import check_installed


class Needing(ByTable):
    def check_installed(self):
        raise MissingExtraError(self.model_name, "this scorer")


def test_one_method_that_is_installed_is_enough():
    first, second = (to_method(Needing(model_name=name)) for name in ("first", "second"))
    check_installed([first, to_method(ByTable())])
    check_installed([])
    with pytest.raises(MissingExtraError, match="first"):
        check_installed([first, second])
