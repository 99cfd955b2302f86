"""The rates of one worker, from a few requests."""

from benchmarks import scale_rates


def test_what_a_job_does_besides_ranking():
    requests = [("cat food", ["the cat", "an owl at night"]), ("owl", ["the moon"])]
    rate, megabytes, read, written = scale_rates.measure_files(requests)
    assert min(rate, megabytes) > 0
    assert 30 < read < written
