"""Decoding rules compared on one checkpoint, and every evaluation that a study needs."""

from dataclasses import replace

from diffgr2lib.ablate.cells import BASE, OPD, RL, cells, served, settings
from diffgr2lib.config import DecodeConfig, Preset

CURVES = (BASE, OPD, RL)  # whose whole tau curves are drawn
LOSSLESS_CELL = "causal context, AR co-loss"


def decoders(preset: Preset) -> dict[str, tuple[str, DecodeConfig]]:
    """Decoder name -> the cell that it decodes, and its settings."""
    plain = served(preset)
    found: dict[str, tuple[str, DecodeConfig]] = {}
    for tau in settings(preset).taus:
        at = replace(plain, tau=tau)
        found |= {
            f"threshold, tau {tau:g}": (BASE, at),
            f"distinct, tau {tau:g}": (BASE, replace(at, distinct=True)),
            f"constrained, tau {tau:g}": (BASE, replace(at, constrained=True)),
            f"remask-once, tau {tau:g}": (BASE, replace(at, remask_once=True)),
            f"entropy, tau {tau:g}": (BASE, replace(at, rule="entropy")),
        }
    low = min(settings(preset).taus)
    found |= {
        f"best where none is above tau, tau {low:g}": (
            BASE, replace(plain, tau=low, fallback="best")
        ),
        "fixed-k, k 2": (BASE, replace(plain, rule="fixed-k", k=2)),
        "fixed-k, k 4": (BASE, replace(plain, rule="fixed-k", k=4)),
        "lossless (speculative)": (LOSSLESS_CELL, replace(plain, speculative=True)),
    }  # fmt: skip
    return found


def wanted(preset: Preset) -> list[tuple[str, DecodeConfig]]:
    """Cells with the decodings that the tables and figures read, in the order of the cells."""
    chosen, plain = settings(preset), served(preset)
    found = [(name, replace(plain, tau=tau)) for name in cells(preset) for tau in chosen.taus]
    found += [(name, replace(plain, tau=tau)) for name in CURVES for tau in chosen.curve]
    return [*found, *decoders(preset).values()]
