"""How many workers a cluster has room for."""

import pytest

from secondpass.errors import InputError
from secondpass_ray.starting import Workers, crew


class Cluster:
    def __init__(self, cpus, gpus=0):
        self.resources = {"CPU": float(cpus)} | ({"GPU": float(gpus)} if gpus else {})

    def cluster_resources(self):
        return self.resources


@pytest.mark.parametrize(
    ("cluster", "wanted", "expected"),
    [
        (Cluster(8), Workers(), (8, 1, 0)),
        (Cluster(8), Workers(cpus=3), (2, 3, 0)),
        (Cluster(8), Workers(count=3), (3, 1, 0)),
        (Cluster(8), Workers(concurrency=5), (5, 1, 0)),
        (Cluster(16, 4), Workers(), (4, 1, 1)),
        (Cluster(16, 4), Workers(gpus=0.5), (8, 1, 0.5)),
        (Cluster(16, 4), Workers(gpus=0), (16, 1, 0)),
        (Cluster(16, 4), Workers(cpus=8), (2, 8, 1)),
    ],
    ids=["cpus", "threads", "count", "concurrency", "gpus", "half", "no-gpus", "both"],
)
def test_crews(cluster, wanted, expected):
    found = crew(cluster, wanted)
    assert (found.count, found.cpus, found.gpus) == expected


@pytest.mark.parametrize(
    ("cluster", "wanted", "problem"),
    [
        (Cluster(8), Workers(count=9), "has 8 CPUs and 0 GPUs, too few for 9 workers of 1 CPUs"),
        (Cluster(8), Workers(cpus=9), "too few for 1 workers of 9 CPUs"),
        (Cluster(8), Workers(gpus=1), "too few for 1 workers of 1 CPUs and 1 GPUs"),
        (Cluster(8, 2), Workers(count=3), "and 2 GPUs, too few for 3 workers of 1 CPUs and 1 GPUs"),
        (Cluster(8), Workers(count=4, concurrency=3), "at least the number of workers"),
    ],
    ids=["cpus", "threads", "no-gpus", "gpus", "concurrency"],
)
def test_too_few(cluster, wanted, problem):
    with pytest.raises(InputError) as caught:
        crew(cluster, wanted)
    assert problem in str(caught.value)
