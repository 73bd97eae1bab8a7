"""One style and one way to save a figure: SVG, PNG and PDF with the same bytes every time."""

from pathlib import Path

import matplotlib as mpl
import seaborn as sns
from matplotlib.figure import Figure

PALETTE = tuple(sns.color_palette("colorblind", 8).as_hex())
METADATA = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
}


def use_style() -> None:
    """Set matplotlib's defaults: opaque white, colour-blind-safe, readable at column width."""
    sns.set_theme(context="paper", style="whitegrid", palette=list(PALETTE), font_scale=1.05)
    mpl.rcParams.update(
        {
            "svg.hashsalt": "diffgr2",
            "svg.fonttype": "path",
            "pdf.fonttype": 42,
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
            "savefig.transparent": False,
            "figure.dpi": 110,
            "savefig.dpi": 160,
            "axes.titlesize": "medium",
        }
    )


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write name.svg, name.png and name.pdf to the folder; returns the paths."""
    paths = []
    for kind, metadata in METADATA.items():
        path = Path(folder) / f"{name}.{kind}"
        figure.savefig(path, format=kind, metadata=metadata, bbox_inches="tight")
        paths.append(path)
    return paths
