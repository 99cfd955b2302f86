"""How cross-encoders are loaded and run, for the export of their files."""

from secondpass.scorers.engines.facts import read_facts
from secondpass.scorers.engines.files import in_folder, model_files
from secondpass.scorers.engines.light import LightModel
from secondpass.scorers.engines.pairs import PairEngine, Requests
from secondpass.scorers.engines.runtimes import (
    MODULES,
    Backend,
    Precision,
    import_openvino,
    openvino_core,
)
from secondpass.scorers.engines.torch_pairs import TorchModel
from secondpass.scorers.hub import HubModel, first_line
from secondpass.scorers.recognition import recognise
