"""The adapters under test, and their entry points.

A test with ``way`` runs for every entry point of each adapter, one with ``adapter`` alone once for
each. What an adapter cannot do is skipped by the table `contract.CANNOT`.
"""

from __future__ import annotations

import pytest

from contract import CANNOT, WAYS, Adapter, adapter_of
from remembered_model import remember


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "adapter" not in metafunc.fixturenames:
        return
    rows = []
    names = ["adapter"]
    if "way" in metafunc.fixturenames:
        names.append("way")
    for name, ways in WAYS.items():
        lacking = [one for one in getattr(metafunc.function, "needs", ()) if one in CANNOT[name]]
        reason = f"{name}: {CANNOT[name][lacking[0]]}" if lacking else ""
        marks = [pytest.mark.skip(reason=reason)] if lacking else []
        kinds = [way for kind in ("sync", "async") for way in ways[kind]]
        for way in kinds if "way" in names else [""]:
            values = (name, way) if "way" in names else (name,)
            rows.append(pytest.param(*values, id="-".join(filter(None, values)), marks=marks))
    metafunc.parametrize(names, rows, indirect=["adapter"])


@pytest.fixture
def adapter(request: pytest.FixtureRequest) -> Adapter:
    return adapter_of(request.param)


@pytest.fixture(autouse=True)
def _remembered_model(monkeypatch: pytest.MonkeyPatch) -> None:
    remember(monkeypatch)
