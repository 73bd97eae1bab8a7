"""What each stage trains: its objective, and the report it makes on the way.

`RECIPES` is the order of the method: mid-training, SFT and RL of the AR teacher, conversion
fine-tuning, on-policy distillation, RL. "Diffusion-GR2" (arXiv 2607.01170), sections 2 to 6.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from diffgr2lib.config import DiffusionConfig, StageTrain
from diffgr2lib.evaluate.metrics import ndcg
from diffgr2lib.evaluate.run import evaluate, response_text
from diffgr2lib.model.policy import Policy
from diffgr2lib.onpolicy.opd import Distil
from diffgr2lib.onpolicy.reward import reward
from diffgr2lib.onpolicy.rl import Judge, Judged, Reinforce
from diffgr2lib.text.grammar import Grammar
from diffgr2lib.train.align import AlignmentRows
from diffgr2lib.train.mid import DictionaryRows, lookup_accuracy
from diffgr2lib.train.objectives import Objective, Supervised
from diffgr2lib.train.rows import Row, answer_weights, encode_prompt, encode_row

if TYPE_CHECKING:
    from diffgr2lib.stages import Stages

LOOKUP_GOAL = 0.99  # mid-training stops when every SID level is copied this often
Report = dict[str, float]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A stage: the one it starts from, its objective, and the preset's sections that shape it.

    converts: the section that says how the converted model reads, where the stage converts.
    """

    parent: str | None
    objective: Callable[["Stages", Policy], Objective[Any]]
    train: str
    options: tuple[str, ...] = ()
    converts: str = ""


def mid(stages: "Stages", policy: Policy) -> Supervised:
    """Item alignment: on made-up dictionaries, or on the catalogue (full form)."""
    train = stages.preset.mid
    rows = dictionary(stages, policy, train.ranking)
    return Supervised(policy, [], train.batch, stages.seed, dictionary=rows)


def sft(stages: "Stages", policy: Policy) -> Supervised:
    """Supervised fine-tuning on kept traces."""
    return _supervised(stages, policy, stages.preset.sft, stages.grammar)


def no_trace(stages: "Stages", policy: Policy) -> Supervised:
    """The answer alone."""
    return _supervised(stages, policy, stages.preset.no_trace, replace(stages.grammar, trace=False))


def cft(stages: "Stages", policy: Policy) -> Supervised:
    """Conversion fine-tuning on the same traces."""
    preset = stages.preset
    return _supervised(stages, policy, preset.cft, stages.grammar, preset.diffusion)


def cft_causal(stages: "Stages", policy: Policy) -> Supervised:
    """CFT with causal context and an AR co-loss: the model for lossless decoding."""
    return _supervised(stages, policy, stages.preset.cft, stages.grammar, stages.preset.causal)


def cft_more(stages: "Stages", policy: Policy) -> Supervised:
    """CFT gone on with, at about the compute of OPD: what OPD has to beat."""
    preset = stages.preset
    return _supervised(stages, policy, preset.cft_more, stages.grammar, preset.diffusion, epoch=1)


def opd(stages: "Stages", policy: Policy) -> Distil:
    """On-policy distillation from the AR teacher."""
    preset, tokenizer = stages.preset, policy.tokenizer
    train, options = preset.opd, preset.distillation
    assert tokenizer is not None

    def token_weights(tokens: Sequence[int]) -> list[float]:
        weights = (train.trace_weight, train.answer_weight)
        return answer_weights(tokenizer, list(tokens), *weights)

    mixed = None
    if options.cft_weight:
        batch = replace(train, batch=train.batch * options.samples)
        mixed = _supervised(stages, policy, batch, stages.grammar, preset.diffusion)
    prompts, keys = _prompts(stages, policy, train)
    teacher = stages.policy({"sft": "ar_sft"}.get(options.teacher, options.teacher))
    return Distil(
        policy, teacher, prompts, keys, token_weights, train, options, preset.decode,
        stages.seed, mixed,
    )  # fmt: skip


def ar(stages: "Stages", policy: Policy) -> Reinforce:
    """RL of the AR teacher (B = 1)."""
    return _reinforce(stages, policy, stages.preset.ar, "sft")


def rl(stages: "Stages", policy: Policy) -> Reinforce:
    """RL of the converted model by exact replay."""
    return _reinforce(stages, policy, stages.preset.rl, "opd")


RECIPES: dict[str, Recipe] = {
    "mid": Recipe(None, mid, "mid"),
    "sft": Recipe("mid", sft, "sft"),
    "no_trace": Recipe("mid", no_trace, "no_trace"),
    "ar": Recipe("sft", ar, "ar", ("reinforcement", "decode")),
    "cft": Recipe("sft", cft, "cft", ("diffusion",), converts="diffusion"),
    "cft_causal": Recipe("sft", cft_causal, "cft", ("causal",), converts="causal"),
    "cft_more": Recipe("cft", cft_more, "cft_more", ("diffusion",)),
    "opd": Recipe("cft", opd, "opd", ("distillation", "decode")),
    "rl": Recipe("opd", rl, "rl", ("reinforcement", "decode")),
}


def dictionary(
    stages: "Stages", policy: Policy, ranking: float = 0.25
) -> DictionaryRows | AlignmentRows:
    """Mid-training rows: look-ups in the compact form, item alignment in the full one."""
    data = stages.preset.data
    assert policy.tokenizer is not None
    if stages.preset.model.form == "full":
        return AlignmentRows(policy.tokenizer, stages.grammar, stages.world.catalogue)
    return DictionaryRows(
        policy.tokenizer, stages.grammar, stages.world.catalogue, data.candidates,
        data.history_shown, ranking,
    )  # fmt: skip


def _supervised(
    stages: "Stages",
    policy: Policy,
    train: StageTrain,
    grammar: Grammar,
    diffusion: DiffusionConfig | None = None,
    epoch: int = 0,
) -> Supervised:
    """epoch: sets the order of rows and masks apart from that of an earlier stage on the rows."""
    ar_weight = diffusion.ar_weight if diffusion else 0.0
    drawn = dictionary(stages, policy, train.ranking) if train.mid_share else None
    return Supervised(
        policy, _rows(stages, policy, train, grammar), train.batch, stages.seed + 1000 * epoch,
        diffusion=diffusion is not None, dictionary=drawn, share=train.mid_share,
        ar_weight=ar_weight,
    )  # fmt: skip


def _rows(stages: "Stages", policy: Policy, train: StageTrain, grammar: Grammar) -> list[Row]:
    assert policy.tokenizer is not None
    weights = (train.trace_weight, train.answer_weight)
    world = stages.world
    return [
        encode_row(policy.tokenizer, grammar, world.train[n], made, *weights)
        for n, made in world.traces[: train.rows or None]
    ]


def _prompts(
    stages: "Stages", policy: Policy, train: StageTrain
) -> tuple[list[list[int]], list[str]]:
    """Prompts of the training lists that a stage reads, and their names."""
    examples = stages.world.train[: train.rows or None]
    assert policy.tokenizer is not None
    prompts = [encode_prompt(policy.tokenizer, stages.grammar, example) for example in examples]
    return prompts, [f"user {example.user}" for example in examples]


def _reinforce(stages: "Stages", policy: Policy, train: StageTrain, reference: str) -> Reinforce:
    preset, options = stages.preset, stages.preset.reinforcement
    prompts, keys = _prompts(stages, policy, train)
    anchor = stages.policy({"sft": "ar_sft"}.get(reference, reference)) if options.kl else None
    judge = make_judge(stages, policy, options.alpha)
    return Reinforce(
        policy, prompts, keys, judge, train, options, preset.decode, stages.seed, anchor
    )


def make_judge(stages: "Stages", policy: Policy, alpha: float) -> Judge:
    """Rewards responses to the training lists."""
    grammar, examples = stages.grammar, stages.world.train

    def judge(n: int, tokens: Sequence[int]) -> Judged:
        example = examples[n]
        parsed = grammar.parse(response_text(policy, list(tokens)), example)
        count = len(example.candidates)
        rank = None if parsed.order is None else parsed.order.index(example.target) + 1
        given = reward(example.target + 1, rank, count, alpha)
        return Judged(given, parsed.valid, parsed.order == tuple(range(count)))

    return judge


def report(stages: "Stages", name: str) -> Callable[[Policy], Report]:
    """What is measured while a stage trains: look-ups, or answers on validation users."""
    if name == "mid":
        return lambda policy: _lookups(stages, policy)
    settings = stages.preset.evaluate
    grammar = replace(stages.grammar, trace=name != "no_trace")

    def probe(policy: Policy) -> Report:
        examples = stages.world.validation[: settings.probe]
        title = f"{name} report"
        found = evaluate(policy, grammar, examples, stages.preset.decode, settings.batch, title)
        score = ndcg(np.array(found.ranks), 3).mean()
        return {"valid": float(found.valid.mean()), "ndcg@3": float(score), "tpf": found.tpf}

    return probe


def _lookups(stages: "Stages", policy: Policy) -> Report:
    rows = dictionary(stages, policy)
    return lookup_accuracy(policy, rows) if isinstance(rows, DictionaryRows) else {}


def lookups_stand(record: Report) -> bool:
    """Whether every SID level is copied often enough to stop mid-training."""
    levels = [value for name, value in record.items() if name.startswith("sid_")]
    return bool(levels) and min(levels) > LOOKUP_GOAL
