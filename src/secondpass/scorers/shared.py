"""How cross-encoders are loaded and run, for the export of their files."""

from secondpass.scorers.batching.pairs import PairEngine, Requests
from secondpass.scorers.families.recognition import recognise
from secondpass.scorers.hub.facts import read_facts
from secondpass.scorers.hub.find import in_folder
from secondpass.scorers.hub.model import HubModel, first_line
from secondpass.scorers.runtimes.light import LightModel
from secondpass.scorers.runtimes.light_files import model_files
from secondpass.scorers.runtimes.runtime import (
    MODULES,
    Backend,
    Precision,
    import_openvino,
    openvino_core,
)
from secondpass.scorers.torch.pairs import TorchModel
