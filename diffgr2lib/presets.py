"""The presets: the settings of each job, by name."""

import dataclasses
import difflib

from diffgr2lib.config import (
    DataConfig,
    DecodeConfig,
    DiffusionConfig,
    Distillation,
    EvalConfig,
    ModelConfig,
    Preset,
    Reinforcement,
    StageTrain,
)
from diffgr2lib.errors import ConfigError

TOY = Preset(
    name="toy",
    data=DataConfig(),
    model=ModelConfig(answer="label"),
    diffusion=DiffusionConfig(block_size=8),
    causal=DiffusionConfig(block_size=8, context="causal", ar_weight=1.0),
    decode=DecodeConfig(fallback="leftmost", max_new_tokens=136),
    mid=StageTrain(steps=400),
    sft=StageTrain(
        steps=450, batch=22, mid_share=0.27, ranking=1.0, micro_batch=16, eval_every=150
    ),
    no_trace=StageTrain(steps=150, batch=16, mid_share=0.1, eval_every=75),
    ar=StageTrain(steps=15, batch=8, lr=0.001, lr_embed=0.0003, eval_every=5, micro_batch=16),
    cft=StageTrain(steps=300, batch=15, mid_share=0.2, ranking=1.0, micro_batch=12, eval_every=75),
    cft_more=StageTrain(
        steps=75,
        batch=15,
        mid_share=0.2,
        ranking=1.0,
        micro_batch=12,
        lr=0.005,
        lr_embed=0.001,
        eval_every=25,
    ),
    opd=StageTrain(steps=30, batch=8, lr=0.005, lr_embed=0.001, eval_every=10),
    rl=StageTrain(steps=15, batch=8, lr=0.002, lr_embed=0.0005, eval_every=5, micro_batch=16),
    evaluate=EvalConfig(sweep=500),
)

PRESETS = {
    "smoke": Preset(
        name="smoke",
        data=DataConfig(
            users=600, items=120, codes=16, max_train=200, max_validation=16, max_test=24,
            brands_shown=64,
        ),  # fmt: skip
        model=ModelConfig(hidden=32, layers=2, heads=2, intermediate=64),
        mid=StageTrain(steps=6, batch=8, eval_every=3, checkpoint_every=3),
        sft=StageTrain(steps=6, batch=8, eval_every=3, checkpoint_every=3, mid_share=0.25),
        no_trace=StageTrain(steps=4, batch=8, eval_every=2, checkpoint_every=2),
        ar=StageTrain(steps=2, batch=2, eval_every=1, checkpoint_every=1),
        cft=StageTrain(steps=6, batch=8, eval_every=3, checkpoint_every=3),
        cft_more=StageTrain(steps=2, batch=8, eval_every=1, checkpoint_every=1),
        opd=StageTrain(steps=2, batch=2, eval_every=1, checkpoint_every=1),
        rl=StageTrain(steps=2, batch=2, eval_every=1, checkpoint_every=1),
        distillation=Distillation(samples=2),
        reinforcement=Reinforcement(group=4),
        evaluate=EvalConfig(batch=24, bootstrap=200, taus=(1.0, 0.6), sweep=8, probe=4),
    ),
    "toy": TOY,
    "beauty-cpu": dataclasses.replace(
        TOY,
        name="beauty-cpu",
        data=DataConfig(
            source="beauty", sid_levels=4, codes=256, train_positions=10, max_train=20000,
            max_validation=500, max_test=3000,
        ),  # fmt: skip
        decode=DecodeConfig(fallback="leftmost", max_new_tokens=152),
        mid=StageTrain(steps=300),
        sft=dataclasses.replace(TOY.sft, steps=400),
        evaluate=EvalConfig(),
    ),
}  # fmt: skip


def preset(name: str) -> Preset:
    """A preset by name. Raises `ConfigError` that lists the names and suggests the nearest."""
    if not isinstance(name, str) or name not in PRESETS:
        close = difflib.get_close_matches(str(name), PRESETS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"There is no preset {name!r}; choose one of {', '.join(PRESETS)}.{hint}")
    return PRESETS[name]
