"""What the engines on torch share."""

import pytest

from secondpass import ModelLoadError
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.scorers.torch import runner as torch_runner
from tiny_models import write_classifier


@pytest.mark.parametrize(
    ("device", "processor", "gpu", "fast"),
    [
        ("cpu", True, None, True),
        ("cpu", False, True, False),
        ("auto", True, None, True),
        ("auto", False, True, True),
        ("auto", True, False, False),
        ("cuda:1", False, True, True),
        ("cuda", True, False, False),
        ("cuda", True, None, False),
        ("mps", True, True, False),
    ],
)
def test_bfloat16_only_where_it_is_fast(monkeypatch, device, processor, gpu, fast):
    """``gpu`` is None without one, else whether it has bfloat16."""
    import torch

    def is_supported(*, including_emulation):
        assert not including_emulation
        return gpu

    monkeypatch.setattr(torch_runner, "has_fast_bfloat16", lambda: processor)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu is not None)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_supported)
    assert torch_runner.is_fast(device) is fast


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("tpu9", "device: 'tpu9' is no device of torch; name auto, cpu, cuda or cuda:1: .*GPU"),
        ("cuda", r"device: 'cuda' needs a GPU and a torch with CUDA, .* finds none: .*models\.md"),
    ],
)
def test_a_device_that_is_not_there(tmp_path, monkeypatch, device, message):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    folder = write_classifier(tmp_path / "model")
    scorer = CrossEncoderScorer(str(folder), device=device)
    with pytest.raises(ModelLoadError, match=message) as caught:
        scorer.warm_up()
    assert "\n" not in str(caught.value)
