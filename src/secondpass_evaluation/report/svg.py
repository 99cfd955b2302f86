"""matplotlib figures as SVG within a page: in the page's colours, with unique ids.

matplotlib (extra ``report``) is imported on first use.
"""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from secondpass.markup import clean
from secondpass_evaluation.significance import TIE

# matplotlib cannot draw in CSS variables; these placeholders are replaced by them afterwards.
INK, MUTED, LINE, GAIN, LOSS, ACCENT, PAPER = (f"#01010{digit}" for digit in range(1, 8))
_VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    LINE: "line",
    GAIN: "gain",
    LOSS: "loss",
    ACCENT: "accent",
    PAPER: "paper",
}
SMALL, LARGE = (4.6, 3.3), (5.2, 3.6)
"""Sizes in inches at which text is about as large as the page's."""
_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "secondpass",  # reproducible ids
    "font.size": 9.5,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "figure.dpi": 72,  # pixels are points
}
_lock = threading.Lock()


def tone(value: float) -> str:
    """The colour of a gain, of a loss, or of neither."""
    if value > TIE:
        return GAIN
    return LOSS if value < -TIE else MUTED


def available() -> bool:
    """Whether matplotlib is installed."""
    try:
        import matplotlib.backends.backend_svg
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def figure(width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes, sized in inches, to be drawn and written within the context.

    matplotlib's settings are replaced within the context and restored afterwards.
    """
    import matplotlib
    from matplotlib import style
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with _lock, matplotlib.rc_context(), warnings.catch_warnings():
        # matplotlib's own font, which only measures text here, lacks many scripts.
        warnings.filterwarnings("ignore", message="(?s).*Glyph .* missing from", category=Warning)
        warnings.filterwarnings("ignore", message="(?s).*Matplotlib currently does not support")
        style.use(["default", _SETTINGS])
        drawing = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(drawing)
        yield drawing, drawing.subplots()


def inline(drawing: Any, prefix: str, label: str) -> str:
    """The figure as an ``svg`` element, with a prefix of its ids and a label for screen readers."""
    text = io.StringIO()
    # Not savefig, which draws everything twice.
    drawing.canvas.print_svg(text, metadata=dict.fromkeys(["Creator", "Date", "Format", "Type"]))
    root = ElementTree.fromstring(text.getvalue())
    for part in [root, *root]:
        for unwanted in [*part.findall(f"{_SVG}metadata"), *part.findall(f"{_SVG}style")]:
            part.remove(unwanted)  # a style sheet here would apply to the whole page
    for part in root.iter():
        part.tag = part.tag.removeprefix(_SVG)
        _adapt(part.attrib, prefix)
    root.attrib = {
        "class": "chart",
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": clean(label),
    }
    return ElementTree.tostring(root, encoding="unicode")


def _adapt(attributes: dict[str, str], prefix: str) -> None:
    if "id" in attributes:
        attributes["id"] = prefix + attributes["id"]
    if _LINK in attributes:
        attributes["href"] = "#" + prefix + attributes.pop(_LINK)[1:]
    if "clip-path" in attributes:
        attributes["clip-path"] = attributes["clip-path"].replace("url(#", f"url(#{prefix}")
    if "style" in attributes:
        for colour, variable in _VARIABLES.items():
            attributes["style"] = attributes["style"].replace(colour, f"var(--{variable})")
