"""What viewers share: their frame of controls and legend, and how they are shown and saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diffgr2lib.report.lane import CONFIDENCE_BINS, STEP_BINS
from diffgr2lib.report.markup import json_block, page, shown, with_assets

COLOURINGS = {"step": "commit step", "confidence": "confidence", "agreement": "agreement with {}"}


class Fragment:
    """What both viewers share: how they are shown and saved."""

    title: str

    def body(self) -> str:
        """The markup without style and script."""
        raise NotImplementedError

    def html(self) -> str:
        """A fragment for a notebook's output, with its own style and script."""
        return with_assets(self.body())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self.html()}

    def to_html(self, path: str | Path) -> Path:
        """Write a self-contained page: readable without scripts, no request to any host."""
        path = Path(path)
        path.write_text(page(self.title, [self.html()]), encoding="utf-8")
        return path


def frame(
    title: str,
    subtitle: str,
    controls: str,
    said: str,
    lanes: list[str],
    side: str,
    legend: str,
    log: str,
    data: dict[str, Any],
    rows: int,
) -> str:
    """One viewer's markup from its parts (title, subtitle and status are text, the rest HTML).

    rows: tokens in a row, from which lanes side by side take their width.
    """
    detail = (
        '<section class="panel live" aria-label="token details" hidden><h4>Token</h4>'
        '<div class="detail"><p class="sub">Point at a token, or Tab to the canvas and use the'
        " arrow keys.</p></div></section>"
    )
    return (
        f'<section class="dgv" data-colour="step" aria-label="{shown(title)}">'
        f'<h3>{shown(title)}</h3><p class="sub">{shown(subtitle)}</p>{controls}'
        f'<p class="status" role="status" aria-live="polite">{shown(said)}</p>'
        f'<div class="body panelled"><div class="lanes" style="--lane:{110 + 42 * rows}px">'
        f"{''.join(lanes)}</div>"
        f'<div class="side">{side}{detail}</div></div>{legend}{log}'
        f"{json_block(data)}</section>"
    )


def controls(colourings: Sequence[str], other: str, run_on: bool, slider: str) -> str:
    """Play, slider, colouring; hidden until the script wakes the viewer."""
    radios = "".join(
        f'<label><input type="radio" name="colour" value="{kind}"{" checked" if n == 0 else ""}>'
        f"{shown(COLOURINGS[kind].format(other))}</label>"
        for n, kind in enumerate(colourings)
    )
    more = (
        '<label><input type="checkbox" class="run-on">'
        f"run on until {shown(other)} has finished</label>"
        if run_on
        else ""
    )
    return (
        '<form class="controls live" hidden>'
        '<button type="button" class="play">Play</button>'
        '<button type="button" class="back" aria-label="one back">‹</button>'
        '<input type="range" class="slider" min="0" max="1" step="1" value="0"'
        f' aria-label="{slider}">'
        '<button type="button" class="forth" aria-label="one forward">›</button>'
        f"<fieldset><legend>Colour by</legend>{radios}</fieldset>{more}</form>"
    )


def legend(other: str, differences: bool) -> str:
    """What colours, hatch, underline and frames mean."""
    keys = [_ramp("step", "s", STEP_BINS, "committed early in its block", "late (number: step)")]
    bounds = ", ".join(f"{bound:g}" for bound in CONFIDENCE_BINS)
    keys.append(_ramp("confidence", "c", 5, "unsure", f"sure (steps at {bounds})"))
    if differences:
        keys.append(
            '<span class="only of-agreement"><span class="key"><span class="t a1">=</span>'
            f'the token of {shown(other)} at this position</span><span class="key">'
            '<span class="t a0 differs">≠</span>another</span></span>'
        )
    keys += [
        '<span class="key"><span class="t masked"></span>masked</span>',
        '<span class="key"><span class="t waiting"></span>not begun</span>',
        '<span class="key"><span class="t now"><bdi>a</bdi></span>committed in this step</span>',
        '<span class="key"><span class="t cut"><bdi>a</bdi></span>after the end, dropped</span>',
    ]
    if differences:
        keys.append(
            '<span class="key"><span class="t first">&nbsp;</span>first that differs</span>'
        )
    return f'<div class="keys">{"".join(keys)}</div>'


def _ramp(kind: str, letter: str, bins: int, low: str, high: str) -> str:
    cells = "".join(f'<i class="{letter}{n}"></i>' for n in range(bins))
    return (
        f'<span class="only of-{kind}"><span class="key">{low}'
        f' <span class="ramp" aria-hidden="true">{cells}</span> {high}</span></span>'
    )
