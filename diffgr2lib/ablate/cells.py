"""The base point and the departures from it: one cell each, one factor at a time."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from diffgr2lib.ablate.masking import Masking
from diffgr2lib.config import DecodeConfig, Preset, StageTrain

Recipe = Literal["cft", "more", "opd", "rl"]
BASE, MORE, OPD, RL = "CFT", "more CFT", "OPD", "RL from OPD"
LEARNING = (BASE, MORE, OPD, RL)  # whose learning curves are drawn
PROBES = 4  # reports of such a stage while it trains
START = "sft"  # the AR teacher's SFT checkpoint, shared with the ladder


@dataclass(frozen=True, slots=True)
class Cell:
    """One trained departure. over: the cell it is compared with.

    parent: the cell (or `START`) whose weights it starts from. diffusion, train, distillation: what
    differs from the preset's sections. teacher_text: OPD on the traces instead of rollouts.
    unconditional: RL that rewards every valid answer with alpha.
    """

    name: str
    family: str
    recipe: Recipe = "cft"
    parent: str = START
    over: str = BASE
    masking: Masking = Masking()
    diffusion: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)
    distillation: dict[str, Any] = field(default_factory=dict)
    teacher_text: bool = False
    unconditional: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Short annealed stages for the cells, users of an evaluation, taus of tables and curves.

    room: longest response of a rollout (the untrained `smoke` model never ends one).
    """

    cft: StageTrain
    more: StageTrain
    opd: StageTrain
    rl: StageTrain
    samples: int
    room: int
    users: int
    taus: tuple[float, ...]
    curve: tuple[float, ...]


def settings(preset: Preset) -> Settings:
    """What fits a preset: a quick one one step a cell, the others some fifty of CFT, ten of OPD.

    `more` has about OPD's compute: 14 steps of CFT take as long as 10 of OPD with two samples.
    """
    small = preset.quick

    def short(stage: StageTrain, steps: int) -> StageTrain:
        return replace(stage, steps=1 if small else steps, eval_every=1 if small else steps)

    return Settings(
        cft=short(preset.cft, 48),
        more=short(preset.cft_more, 14),
        opd=short(replace(preset.opd, batch=1) if small else preset.opd, 10),
        rl=short(preset.rl, 8),
        samples=1 if small else 2,
        room=48 if small else preset.decode.max_new_tokens,
        users=4 if small else 256,
        taus=(0.6,) if small else (0.9, 0.6),
        curve=(0.6,) if small else (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    )


def served(preset: Preset) -> DecodeConfig:
    """How cells are decoded."""
    return replace(preset.decode, max_new_tokens=settings(preset).room)


def cells(preset: Preset) -> dict[str, Cell]:
    """All cells by name, parents before children."""
    block = preset.diffusion.block_size
    made = [Cell(BASE, "base")]
    for size in (1, 4, 8, 16, 32):
        if size != block:
            made.append(Cell(f"block size {size}", "block size", diffusion={"block_size": size}))
    made += [
        Cell("block size grown to B", "block size", masking=Masking(grow=True)),
        Cell("causal context", "context", diffusion={"context": "causal"}),
        Cell(
            "causal context, AR co-loss", "context", over="causal context",
            diffusion={"context": "causal", "ar_weight": 1.0},
        ),
        Cell("two masks apart, 1/t weights", "masks", masking=Masking(pair=False)),
        Cell("clipped law", "masks", masking=Masking(law="clipped")),
        Cell(
            "later-heavier law, 1/p weights", "masks", over="two masks apart, 1/t weights",
            masking=Masking(pair=False, law="later"),
        ),
        Cell("grid from the prompt's start", "masks", masking=Masking(whole_grid=True)),
        Cell("trace weight 1 (as the answer)", "answer", train={"trace_weight": 1.0}),
        Cell("trace weight 0.1", "answer", train={"trace_weight": 0.1}),
        Cell("whole answer masked, half the rows", "answer", masking=Masking(whole_answer=0.5)),
        Cell("penalty on over-full labels", "answer", masking=Masking(over_full=1.0)),
        Cell(MORE, "on-policy", "more", BASE),
        Cell(OPD, "on-policy", "opd", BASE, over=MORE),
    ]  # fmt: skip
    departures: dict[str, dict[str, Any]] = {
        "OPD, reverse KL": {"divergence": "reverse"},
        "OPD, Jensen-Shannon": {"divergence": "jsd"},
        "OPD, one state a block": {"states": "one"},
        "OPD, every masked position": {"targets": "masked"},
        "OPD, frontier targets": {"targets": "frontier"},
        "OPD, positions committed now": {"targets": "committed"},
        "OPD, rollouts at temperature 1": {"temperature": 1.0},
        "OPD, rollouts at tau 0.9": {"tau": 0.9},
    }
    made += [
        Cell(name, "on-policy", "opd", BASE, over=OPD, distillation=changed)
        for name, changed in departures.items()
    ]
    made += [
        Cell("OPD, teacher's texts", "on-policy", "opd", BASE, over=OPD, teacher_text=True),
        Cell(RL, "RL", "rl", OPD, over=OPD),
        Cell("RL from CFT", "RL", "rl", BASE),
        Cell("RL from naive", "RL", "rl", START),
        Cell(
            "RL from OPD, unconditional reward", "RL", "rl", OPD, over=RL, unconditional=True
        ),
    ]  # fmt: skip
    return {cell.name: cell for cell in made}
