"""Figures of matplotlib as SVG that stands in a page: themed by it, titled, with ids of its own.

matplotlib is imported where it is used.
"""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from secondpass.evaluation.report.parts import clean

# matplotlib knows no variables of CSS. It draws in colours that stand for them.
INK, MUTED, LINE, GAIN, LOSS, ACCENT, PAPER = (f"#01010{digit}" for digit in range(1, 8))
_VARIABLES = dict(
    zip(
        (INK, MUTED, LINE, GAIN, LOSS, ACCENT, PAPER),
        ("ink", "muted", "line", "gain", "loss", "accent", "paper"),
        strict=True,
    )
)
SMALL, LARGE = (4.6, 3.3), (5.2, 3.6)
"""Sizes in inches at which text is as large as the page's, or nearly."""
_TIE = 1e-9
_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "secondpass",  # ids are the same each time
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
    "figure.dpi": 72,  # a pixel is a point
}
_lock = threading.Lock()


def tone(value: float) -> str:
    """The colour of a gain, of a loss, or of neither."""
    return GAIN if value > _TIE else LOSS if value < -_TIE else MUTED


def available() -> bool:
    """Whether there is a matplotlib to draw with."""
    try:
        import matplotlib.backends.backend_svg
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def figure(width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes, of so many inches. It has to be drawn and written in the context.

    Settings of matplotlib are those of this module within, and as they were afterwards.
    """
    import matplotlib
    from matplotlib import style
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with _lock, matplotlib.rc_context(), warnings.catch_warnings():
        # matplotlib measures text in a font of its own, which lacks many scripts. The page's
        # reader shows the text, and has others.
        warnings.filterwarnings("ignore", message="(?s).*Glyph .* missing from", category=Warning)
        warnings.filterwarnings("ignore", message="(?s).*Matplotlib currently does not support")
        style.use(["default", _SETTINGS])
        made = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(made)
        yield made, made.subplots()


def inline(made: Any, prefix: str, label: str, titles: Mapping[str, str] | None = None) -> str:
    """The figure as an ``svg`` element.

    Args:
        made: the figure.
        prefix: of all ids, which have to be the only ones of the page.
        label: what the plot shows, for those who do not see it.
        titles: by the gid of a part, what is shown when the pointer is over it.
    """
    text = io.StringIO()
    # Not savefig, which draws everything twice.
    made.canvas.print_svg(text, metadata=dict.fromkeys(["Creator", "Date", "Format", "Type"]))
    root = ElementTree.fromstring(text.getvalue())
    for part in [root, *root]:
        for unwanted in [*part.findall(f"{_SVG}metadata"), *part.findall(f"{_SVG}style")]:
            part.remove(unwanted)  # its style sheet would be that of the whole page
    titles = titles or {}
    for part in root.iter():
        part.tag = part.tag.removeprefix(_SVG)
        if title := titles.get(part.get("id", "")):
            element = ElementTree.Element("title")
            element.text = clean(title)
            part.insert(0, element)
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
