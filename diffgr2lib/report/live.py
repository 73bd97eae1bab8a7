"""Decode a few examples now, with trajectories, as the viewer and the explorer need them."""

from collections.abc import Sequence
from dataclasses import replace

from diffgr2lib.artifacts import Store
from diffgr2lib.config import DecodeConfig
from diffgr2lib.data.types import Example
from diffgr2lib.decode.ar import decode_ar
from diffgr2lib.decode.block import decode_blocks
from diffgr2lib.decode.prepare import pad_left
from diffgr2lib.decode.trajectory import Trajectory
from diffgr2lib.errors import ConfigError, ModelError
from diffgr2lib.model.policy import Policy
from diffgr2lib.presets import preset
from diffgr2lib.report.viewer import TrajectoryViewer
from diffgr2lib.stages import Stages
from diffgr2lib.text.grammar import Grammar
from diffgr2lib.train.rows import encode_prompt


def trajectories(
    policy: Policy, grammar: Grammar, examples: Sequence[Example], decode: DecodeConfig
) -> list[Trajectory]:
    """One greedy trajectory an example, in one batch; the AR loop where block_size is 1.

    Of the options only tau, rule, k, fallback, fused and max_new_tokens are kept.
    """
    if policy.tokenizer is None:
        raise ModelError("The policy has no tokenizer, so it cannot read an example's prompt.")
    decode = replace(
        decode, temperature=0.0, distinct=False, constrained=False, speculative=False,
        remask_once=False,
    )  # fmt: skip
    prompts = [encode_prompt(policy.tokenizer, grammar, example) for example in examples]
    prompt, mask = pad_left(prompts, policy.pad_token_id)
    loop = decode_ar if policy.block_size == 1 else decode_blocks
    return loop(policy, prompt, mask, decode).trajectories


def at_taus(
    policy: Policy,
    grammar: Grammar,
    example: Example,
    decode: DecodeConfig,
    taus: Sequence[float],
) -> dict[str, Trajectory]:
    """One example's trajectory at each tau, named ``tau 0.9``."""
    return {
        f"tau {tau:g}": trajectories(policy, grammar, [example], replace(decode, tau=tau))[0]
        for tau in taus
    }


def view(
    preset_name: str, system: str = "cft", user: int = 1, ar: str = "ar_sft"
) -> TrajectoryViewer:
    """Decode one test user (from 1) with a system of a preset, beside the AR model, and show it.

    What the preset's stages lack is trained first. Raises `ConfigError` for an unknown preset,
    system or user.
    """
    stages = Stages(preset(preset_name), Store())
    examples, grammar, decode = stages.world.test, stages.grammar, stages.preset.decode
    if not 1 <= user <= len(examples):
        raise ConfigError(f"user is {user}; the test users are 1 to {len(examples)}.")
    example, policy = examples[user - 1], stages.policy(system)
    made = trajectories(policy, grammar, [example], decode)[0]
    other = trajectories(stages.policy(ar), grammar, [example], decode)[0]
    title = f"User {example.user}, {system}, tau {decode.tau:g}"
    return TrajectoryViewer(made, policy, example, other, grammar, title=title, name=system)
