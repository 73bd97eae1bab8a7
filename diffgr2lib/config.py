"""Every setting, as frozen dataclasses; `presets` names what differs between jobs."""

import dataclasses
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_type_hints

from diffgr2lib.errors import ConfigError

Source = Literal["toy", "beauty", "folder"]
Context = Literal["block", "causal"]
Rule = Literal["threshold", "fixed-k", "entropy"]
Fallback = Literal["best", "leftmost"]
Form = Literal["compact", "full"]
Answer = Literal["sid", "label"]
States = Literal["one", "all"]
Targets = Literal["masked", "committed", "frontier", "corrected"]
Divergence = Literal["forward", "reverse", "jsd"]
Teacher = Literal["sft", "ar"]
Optimizer = Literal["muon", "adamw"]
CHOICES = (
    Source, Context, Rule, Fallback, Form, Answer, States, Targets, Divergence, Teacher, Optimizer,
)  # fmt: skip


def _check(config: Any, **bounds: tuple[float, float]) -> None:
    """Raise `ConfigError` for a field of the wrong type or out of its bounds (inclusive)."""
    name = type(config).__name__
    hints = get_type_hints(type(config))
    for entry in fields(config):
        value, hint = getattr(config, entry.name), hints[entry.name]
        options = get_args(hint) if hint in CHOICES else ()
        if options and value not in options:
            allowed = ", ".join(map(repr, options))
            raise ConfigError(f"{name}.{entry.name} is {value!r}; choose one of {allowed}.")
        numeric = hint in (int, float)
        wrong = isinstance(value, bool) or not isinstance(value, (int, float))
        if numeric and (wrong or (hint is int and not isinstance(value, int))):
            kind = "a whole number" if hint is int else "a number"
            raise ConfigError(f"{name}.{entry.name} is {value!r}; give {kind}.")
        if hint in (str, bool) and not isinstance(value, hint):
            raise ConfigError(f"{name}.{entry.name} is {value!r}; give a {hint.__name__}.")
    for key, (low, high) in bounds.items():
        value = getattr(config, key)
        if not low <= value <= high:
            raise ConfigError(
                f"{name}.{key} is {value}; it must lie from {low:g} to {high:g}. Change it in the"
                " preset, or with dataclasses.replace."
            )


@dataclass(frozen=True, slots=True)
class DataConfig:
    """Where the purchases come from, and how lists, evidence and traces are made.

    users, items, codes, sid_levels describe the generated toy world; a folder brings its own.
    train_positions: training targets taken per user. max_*: seeded subsamples of the lists.
    """

    source: Source = "toy"
    path: str = ""
    seed: int = 0
    users: int = 6000
    items: int = 480
    sid_levels: int = 2
    codes: int = 32
    candidates: int = 10
    history_shown: int = 8
    brands_shown: int = 512
    folds: int = 5
    train_positions: int = 3
    max_train: int = 8000
    max_validation: int = 500
    max_test: int = 1000
    point_scale: float = 4.0
    variants: int = 4

    def __post_init__(self) -> None:
        """Check every field."""
        _check(
            self, users=(20, 10**7), items=(20, 10**7), sid_levels=(1, 8), codes=(2, 4096),
            candidates=(2, 10), history_shown=(1, 64), brands_shown=(0, 10**6), folds=(2, 100),
            train_positions=(1, 200), max_train=(1, 10**7), max_validation=(1, 10**7),
            max_test=(1, 10**7), point_scale=(0.5, 32), variants=(1, 4), seed=(0, 2**31),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """checkpoint: a Hugging Face folder, or "" for a small Qwen3 model of these sizes."""

    checkpoint: str = ""
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    intermediate: int = 384
    max_positions: int = 1024
    rope_theta: float = 1000.0
    form: Form = "compact"
    answer: Answer = "sid"

    def __post_init__(self) -> None:
        """Check every field."""
        _check(
            self, hidden=(8, 16384), layers=(1, 200), heads=(1, 256), intermediate=(8, 65536),
            max_positions=(64, 10**6), rope_theta=(10, 1e8),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StageTrain:
    """One training stage: lr is for hidden matrices, lr_embed AdamW's for all else.

    rows: how many of the training lists and traces it reads (0: all). optimizer: of the hidden
    matrices; Muon for models from scratch, AdamW for a pretrained one.
    warmup and min_lr are fractions. micro_batch 0: the whole batch at once. mid_share: fraction of
    each batch that is mid-training rows. ranking: fraction of those that rank by given points.
    """

    steps: int
    batch: int = 32
    lr: float = 0.02
    lr_embed: float = 0.003
    warmup: float = 0.05
    min_lr: float = 0.05
    clip: float = 1.0
    trace_weight: float = 0.5
    answer_weight: float = 1.0
    mid_share: float = 0.0
    ranking: float = 0.25
    eval_every: int = 25
    checkpoint_every: int = 100
    micro_batch: int = 0
    rows: int = 0
    optimizer: Optimizer = "muon"

    def __post_init__(self) -> None:
        """Check every field."""
        _check(
            self, steps=(1, 10**7), batch=(1, 10**6), lr=(0, 10), lr_embed=(0, 10), warmup=(0, 1),
            min_lr=(0, 1), clip=(0, 10**6), trace_weight=(0, 100), answer_weight=(0, 100),
            mid_share=(0, 1), ranking=(0, 1), eval_every=(1, 10**7), checkpoint_every=(1, 10**7),
            micro_batch=(0, 10**6), rows=(0, 10**9),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class DiffusionConfig:
    """How the converted model reads a response: block size, context, weight of the AR co-loss."""

    block_size: int = 16
    context: Context = "block"
    ar_weight: float = 0.0

    def __post_init__(self) -> None:
        """Check every field; an AR co-loss needs causal context."""
        _check(self, block_size=(1, 4096), ar_weight=(0, 100))
        if self.ar_weight > 0 and self.context == "block" and self.block_size > 1:
            raise ConfigError(
                f"DiffusionConfig.ar_weight is {self.ar_weight} with context 'block': a clean"
                " column there has already seen the token that it would score, so the loss leaks."
                " Set ar_weight to 0 or context to 'causal'."
            )


@dataclass(frozen=True, slots=True)
class DecodeConfig:
    """One way to decode; see "Decoding" in the README. tau may exceed 1 (one token a step).

    fallback: what a step commits where nothing scores above tau; best is the paper's.
    speculative: lossless decoding of a causal-context policy. It has no use for tau; draft_tau ends
    a guess before the first draft that is less sure (0: a whole block).
    remask_once: decode an invalid answer's blocks a second time, one token a step.
    """

    tau: float = 0.9
    rule: Rule = "threshold"
    k: int = 1
    fallback: Fallback = "best"
    distinct: bool = False
    constrained: bool = False
    temperature: float = 0.0
    max_new_tokens: int = 224
    fused: bool = True
    speculative: bool = False
    draft_tau: float = 0.0
    remask_once: bool = False

    def __post_init__(self) -> None:
        """Check every field."""
        _check(
            self, tau=(-1, 100), k=(1, 4096), temperature=(0, 100), max_new_tokens=(1, 10**6),
            draft_tau=(0, 1),
        )  # fmt: skip
        if self.distinct and self.constrained:
            raise ConfigError("DecodeConfig: constrained already implies distinct; set only one.")
        if self.speculative and (self.distinct or self.constrained or self.remask_once):
            raise ConfigError(
                "DecodeConfig: speculative gives the AR model's own answer, so distinct,"
                " constrained and remask_once cannot join it; set it alone."
            )


@dataclass(frozen=True, slots=True)
class Distillation:
    """On-policy distillation; see `diffgr2lib.onpolicy.opd` for what the names mean.

    samples: trajectories a prompt. temperature, tau: of the rollouts. top_k: teacher tokens kept
    (0: the whole vocabulary). blind_weight: weight of a masked position with a committed token to
    its right. cft_weight: weight of mixed-in CFT rows (0: none). teacher: the AR model's stage.
    """

    teacher: Teacher = "sft"
    samples: int = 4
    temperature: float = 0.3
    tau: float = 0.6
    states: States = "all"
    targets: Targets = "corrected"
    divergence: Divergence = "forward"
    top_k: int = 0
    blind_weight: float = 1.0
    cft_weight: float = 0.0

    def __post_init__(self) -> None:
        """Check every field."""
        _check(
            self, samples=(1, 10**4), temperature=(0, 100), tau=(-1, 100), top_k=(0, 10**6),
            blind_weight=(0, 1), cft_weight=(0, 100),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reinforcement:
    """RL: group size, clip range, rollouts, reward; see `diffgr2lib.onpolicy.rl`.

    rounds: how often a step draws prompts anew to fill up for groups without variance. updates:
    optimizer steps on one set of rollouts. kl: weight of a penalty towards the stage's start.
    """

    group: int = 8
    clip_low: float = 0.2
    clip_high: float = 0.28
    temperature: float = 1.0
    tau: float = 0.6
    alpha: float = 0.2
    rounds: int = 2
    updates: int = 1
    kl: float = 0.0

    def __post_init__(self) -> None:
        """Check every field; greedy rollouts do not explore."""
        _check(
            self, group=(2, 10**4), clip_low=(0, 1), clip_high=(0, 100), temperature=(0.01, 100),
            tau=(-1, 100), alpha=(0, 10), rounds=(1, 100), updates=(1, 100), kl=(0, 100),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class EvalConfig:
    """batch: rows decoded side by side. taus, sweep: values and users of the sweep over tau.

    probe: users of the reports during training. bootstrap: draws of an interval.
    """

    batch: int = 64
    bootstrap: int = 2000
    taus: tuple[float, ...] = (1.0, 0.9, 0.6, 0.4)
    sweep: int = 256
    probe: int = 64

    def __post_init__(self) -> None:
        """Check every field."""
        _check(self, batch=(1, 4096), bootstrap=(100, 10**6), sweep=(2, 10**7), probe=(1, 10**6))
        known = isinstance(self.taus, tuple) and all(type(tau) in (int, float) for tau in self.taus)
        if not known or not self.taus or any(not -1 <= tau <= 100 for tau in self.taus):
            raise ConfigError(
                f"EvalConfig.taus is {self.taus!r}; give a tuple of numbers from -1 to 100."
            )


@dataclass(frozen=True, slots=True)
class Preset:
    """All settings of one job. causal: how the model for lossless decoding reads a response.

    quick: it shows that the mechanics work, and its results claim nothing.
    """

    name: str
    data: DataConfig
    model: ModelConfig
    mid: StageTrain
    sft: StageTrain
    no_trace: StageTrain
    ar: StageTrain
    cft: StageTrain
    cft_more: StageTrain
    opd: StageTrain
    rl: StageTrain
    distillation: Distillation = field(default_factory=Distillation)
    reinforcement: Reinforcement = field(default_factory=Reinforcement)
    diffusion: DiffusionConfig = field(default_factory=DiffusionConfig)
    causal: DiffusionConfig = field(
        default_factory=lambda: DiffusionConfig(context="causal", ar_weight=1.0)
    )
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    evaluate: EvalConfig = field(default_factory=EvalConfig)
    quick: bool = False

    def __post_init__(self) -> None:
        """Check that every section is of its kind."""
        for name, kind in get_type_hints(type(self)).items():
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"Preset.{name} must be a {kind.__name__}; see the presets.")

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings."""
        return dataclasses.asdict(self)
