"""What is refused before Ray is started."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from secondpass.errors import InputError
from secondpass_ray import running
from secondpass_ray.inputs import JobInput
from secondpass_ray.ranking import Choices
from secondpass_ray.running import Job, JobError, run_job

CONFIG = {"method": "lexical"}


@pytest.mark.parametrize(
    ("source", "output"),
    [("in", "in/out"), ("out/part-000000000000-000000000000.jsonl", "out")],
    ids=["output-in-input", "input-in-output"],
)
def test_an_input_is_never_in_the_way_of_the_output(tmp_path, monkeypatch, source, output):
    monkeypatch.setattr(running, "imported", lambda: None)
    path = tmp_path / source
    file = path if path.suffix else path / "a.jsonl"
    file.parent.mkdir()
    file.write_text('{"query": "q", "candidates": []}\n')
    job = Job(JobInput(str(path)), str(tmp_path / output), CONFIG, Choices({}))
    with pytest.raises(InputError, match="is in the folder of the input, or has it"):
        run_job(job, force=True)
    assert file.exists()


def test_an_error_of_ray_at_any_time_is_told_by_its_type(tmp_path, monkeypatch):
    """Such as that of a cluster on whose nodes secondpass is not installed."""

    class RayError(Exception):
        """As Ray's, whose message goes on for pages."""

    def cluster_resources():
        raise RayError("a traceback with the address of a machine")

    ray = SimpleNamespace(
        exceptions=SimpleNamespace(RayError=RayError), cluster_resources=cluster_resources
    )
    monkeypatch.setattr(running, "imported", lambda: ray)
    monkeypatch.setattr(running, "connected", lambda *_: nullcontext(ray))
    path = tmp_path / "in.jsonl"
    path.write_text('{"query": "q", "candidates": []}\n')
    job = Job(JobInput(str(path)), str(tmp_path / "out"), CONFIG, Choices({}))
    with pytest.raises(JobError, match=r"^Ray could not go on \(RayError\); use --resume"):
        run_job(job)
