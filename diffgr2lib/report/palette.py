"""Colours of the viewer in both themes, and its style sheet."""

from functools import cache
from importlib.resources import files

COMMON = (
    "paper", "raised", "ink", "soft", "line", "edge", "trough", "hatch", "accent", "good", "poor",
    "warn",
)  # fmt: skip
LIGHT = dict(zip(COMMON, (
    "#ffffff", "#f6f7f9", "#1b2027", "#555d68", "#d8dce2", "#8b94a1", "#e6e9ee", "#b9c0ca",
    "#0b5cad", "#d3ebd3", "#fbdcc0", "#c2410c",
), strict=True))  # fmt: skip
DARK = dict(zip(COMMON, (
    "#14171c", "#1d2127", "#eceff4", "#a9b2bf", "#343a44", "#6e7886", "#2b3038", "#4b5361",
    "#6cb2f7", "#1f4a2b", "#6b3410", "#fb923c",
), strict=True))  # fmt: skip
# early to late in the block; unsure to sure; the same as, or other than, the AR token
STEPS = ("#d0ebe1", "#c4e3f2", "#c2d2f6", "#d7c9f4", "#f3c6e1", "#fbc9b3")
STEPS_DARK = ("#183e39", "#17425b", "#27407a", "#47377c", "#66315f", "#713826")
CONFIDENCE = ("#f4a884", "#fbcfab", "#fce8d2", "#dbe9f3", "#b9d6ea")
CONFIDENCE_DARK = ("#7d3514", "#623a1a", "#463b2b", "#263f50", "#16486b")
AGREEMENT = ("#fbd3a8", "#cfe4f2", "#e6e9ee")
AGREEMENT_DARK = ("#6b3c11", "#17435f", "#2b3038")
DARK_PAGES = ('[data-jp-theme-light="false"] .dgv', ".dgv[data-theme=dark]")


@cache
def style_sheet() -> str:
    """The whole CSS: variables of both themes, colours of the cells, layout.

    Dark where JupyterLab's theme is dark; elsewhere as the reader's system asks.
    """
    dark = _variables(DARK)
    rules = [f".dgv {{ {_variables(LIGHT)} color-scheme: light; }}"]
    rules += _cells(".dgv", STEPS, CONFIDENCE, AGREEMENT)
    hidden = (STEPS_DARK, CONFIDENCE_DARK, AGREEMENT_DARK)
    for root in DARK_PAGES:
        rules += [f"{root} {{ {dark} color-scheme: dark; }}", *_cells(root, *hidden)]
    free = "body:not([data-jp-theme-light]) .dgv:not([data-theme=light])"
    system = [f"{free} {{ {dark} color-scheme: dark; }}", *_cells(free, *hidden)]
    rules.append("@media (prefers-color-scheme: dark) {\n" + "\n".join(system) + "\n}")
    return "\n".join([*rules, asset("viewer.css")])


@cache
def asset(name: str) -> str:
    """A file of `report/assets`, as text."""
    return (files("diffgr2lib.report") / "assets" / name).read_text(encoding="utf-8")


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


def _cells(
    root: str, steps: tuple[str, ...], confidence: tuple[str, ...], agreement: tuple[str, ...]
) -> list[str]:
    """Rules that colour a token (or a legend's or thumbnail's cell) by its bin."""
    rules = []
    for kind, colours in (("step", steps), ("confidence", confidence), ("agreement", agreement)):
        letter = kind[0]
        for number, colour in enumerate(colours):
            cell = f".{letter}{number}"
            own = f"{root} .ramp {cell}, {root} .keys .of-{kind} {cell}"
            own += f", {root}[data-colour={kind}] .t{cell}"
            own += f", {root} rect{cell}" if kind == "step" else ""
            rules.append(f"{own} {{ --c: {colour}; }}")
    return rules
