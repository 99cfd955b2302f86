"""A Ray of two CPUs in this process, and what it has logged."""

from pathlib import Path

import pytest

KEY = "sk-hidden-0123456789"


@pytest.fixture(scope="module")
def cluster():
    """Ray, connected to a cluster whose workers have a key in their environment."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("OPENAI_API_KEY", KEY)
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=100 * 2**20,
        )
        yield ray
        ray.shutdown()


@pytest.fixture
def logs(cluster):
    """Read everything that Ray has logged."""

    def read():
        session = Path(cluster._private.worker._global_node.get_session_dir_path())
        files = [path for path in (session / "logs").rglob("*") if path.is_file()]
        found = b"".join(path.read_bytes() for path in files)
        assert found
        return found

    return read
