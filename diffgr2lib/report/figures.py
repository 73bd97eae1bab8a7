"""One style and one way to save a figure: SVG, PNG and PDF with the same bytes every time."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.figure import Figure

PALETTE = tuple(sns.color_palette("colorblind", 8).as_hex())
# what bytes depend on, kept apart from taste: it holds for every figure that is saved
STABLE: Any = {
    "svg.hashsalt": "diffgr2",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "savefig.dpi": 160,
}
METADATA = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
}


def use_style() -> None:
    """Set matplotlib's defaults: opaque white, colour-blind-safe, readable at column width."""
    # DejaVu Sans comes with matplotlib, so that figures look the same on every machine
    sns.set_theme(
        context="paper",
        style="whitegrid",
        palette=list(PALETTE),
        font="DejaVu Sans",
        font_scale=1.05,
        rc={"figure.dpi": 110, "figure.facecolor": "white", "axes.titlesize": "medium"},
    )
    mpl.rcParams.update(STABLE)


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write name.svg, name.png and name.pdf, opaque, to the folder; returns the paths."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = []
    for kind, metadata in METADATA.items():
        path = Path(folder) / f"{name}.{kind}"
        with mpl.rc_context(STABLE):
            figure.savefig(
                path,
                format=kind,
                metadata=metadata,
                bbox_inches="tight",
                facecolor="white",
                transparent=False,
            )
        paths.append(path)
    return paths
