"""The ladder's stages, each an artifact: data -> mid -> sft -> naive / cft, and their evaluations.

A stage's key hashes the settings that it reads, its seed, its parents' keys and the source of the
modules it uses, so a stage is built once and found again (HIT) until one of these changes.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from diffgr2lib import processes
from diffgr2lib.artifacts import Artifact, Store, stage_key
from diffgr2lib.config import DecodeConfig, Preset
from diffgr2lib.data.folder import fingerprint
from diffgr2lib.data.types import Catalogue
from diffgr2lib.data.world import World, build_world, read_world
from diffgr2lib.decode.prepare import check_room
from diffgr2lib.device import check_device
from diffgr2lib.errors import ConfigError
from diffgr2lib.evaluate.run import Evaluation, evaluate
from diffgr2lib.model.checkpoint import load, load_checkpoint, save
from diffgr2lib.model.policy import Policy, build_policy, convert
from diffgr2lib.recipes import RECIPES, lookups_stand, report
from diffgr2lib.text.grammar import Grammar
from diffgr2lib.text.tokenizer import train_tokenizer
from diffgr2lib.train.loop import History, fit
from diffgr2lib.train.rows import encode_prompt

DATA_MODULES = ("data", "errors")
MODEL_MODULES = ("model", "text")
# what shapes trained weights; decoding and its cache only report during training
TRAIN_MODULES = (
    "model.checkpoint", "model.columns", "model.gguf", "model.initialise", "model.masks",
    "model.policy", "text", "train",
)  # fmt: skip
EVALUATE_MODULES = (*MODEL_MODULES, "decode", "evaluate.run", "train.rows")
ON_POLICY = ("onpolicy", "decode", "model.cache", "recipes", "evaluate.run")
READINGS = {  # system -> the stage whose weights it has; see `Stages.policy`
    "ar_sft": "sft",
    "ar_no_trace": "no_trace",
    "ar": "ar",
    "naive": "sft",
    "cft": "cft",
    "cft_causal": "cft_causal",
    "ar_causal": "cft_causal",
    "cft_more": "cft_more",
    "opd": "opd",
    "rl": "rl",
}
SPLITS = ("train", "validation", "test")


class Stages:
    """The stages of one preset and one training seed. Every method builds what it lacks."""

    def __init__(
        self, preset: Preset, store: Store, seed: int = 0, device: str = "cpu", force: bool = False
    ) -> None:
        if not 0 <= seed < 10**9:
            raise ConfigError(f"seed is {seed}; give a whole number from 0 to below 10^9.")
        self.preset, self.store, self.seed = preset, store, seed
        self.device, self.force = processes.join(check_device(device)), force
        self._found: dict[str, Artifact] = {}

    def variant(self, preset: Preset) -> "Stages":
        """The same run with another preset; what was found already is not verified again."""
        made = Stages(preset, self.store, self.seed, self.device, self.force)
        made._found = self._found
        if preset.data == self.preset.data:
            made.__dict__["world"] = self.world
        return made

    # -- data --------------------------------------------------------------------------------------

    def data(self) -> Artifact:
        """Candidate lists, scorecard and teacher traces (shared by all training seeds)."""
        config = self.preset.data
        plain = dataclasses.asdict(config)
        if config.source == "folder":
            plain |= {"path": "", "content": fingerprint(config.path)}

        def build(out: Path, work: Path) -> dict[str, Any]:
            return build_world(config, out)

        return self.artifact("data", plain, [], DATA_MODULES, build, seed=0)

    @cached_property
    def world(self) -> World:
        """The data stage, read back."""
        return read_world(self.data().path)

    @property
    def grammar(self) -> Grammar:
        """The preset's grammar, with the reasoning trace."""
        model, levels = self.preset.model, len(self.world.catalogue.sid_levels)
        return Grammar(form=model.form, answer=model.answer, levels=levels)

    # -- training ----------------------------------------------------------------------------------

    def trained(self, name: str) -> Artifact:
        """A training stage by name (see `RECIPES`), and before it those that it starts from."""
        if name not in RECIPES:
            raise ConfigError(f"There is no stage {name!r}; use one of {', '.join(RECIPES)}.")
        recipe, preset = RECIPES[name], self.preset
        parent = None if recipe.parent is None else self.trained(recipe.parent)
        parents = [self.data().key, *([parent.key] if parent else [])]
        if "distillation" in recipe.options:
            parents.append(self.trained(preset.distillation.teacher).key)
        train = getattr(preset, recipe.train)
        settings = {"train": train, "model": preset.model}
        settings |= {option: getattr(preset, option) for option in recipe.options}
        on_policy = "decode" in recipe.options
        modules = (*TRAIN_MODULES, *ON_POLICY) if on_policy else TRAIN_MODULES

        def build(out: Path, work: Path) -> dict[str, Any]:
            policy = self._start() if parent is None else self.load(parent)
            if recipe.converts:
                reading = getattr(preset, recipe.converts)
                policy = convert(policy, reading.block_size, reading.context)
            move(policy, self.device)
            self._check_room(policy)
            probe = report(self, name)
            history = fit(
                policy, recipe.objective(self, policy), train, work, name,
                probe=lambda step: probe(policy),
                enough=lookups_stand if name == "mid" else None, cpu=self.device == "cpu",
            )  # fmt: skip
            move(policy, "cpu")
            save(policy, out)
            (out / "history.json").write_text(json.dumps(history))
            return {k: v for k, v in history[-1].items()}

        plain = {key: dataclasses.asdict(value) for key, value in settings.items()}
        return self.artifact(name, plain, parents, modules, build, together=True)

    def policy(self, system: str) -> Policy:
        """A trained policy by system name.

        `naive` is the AR teacher's weights, converted; `ar_causal` those of `cft_causal`, read one
        token at a time.
        """
        policy = self.load(self.trained(stage_of(system)))
        if system == "naive":
            diffusion = self.preset.diffusion
            policy = convert(policy, diffusion.block_size, diffusion.context)
        return replace(policy, block_size=1) if system == "ar_causal" else policy

    # -- evaluation --------------------------------------------------------------------------------

    def evaluation(
        self, system: str, decode: DecodeConfig, split: str = "test", limit: int | None = None
    ) -> Evaluation:
        """Decode a system over the first `limit` users of a split (all by default), once."""
        if split not in SPLITS:
            raise ConfigError(f"There is no split {split!r}; use one of {', '.join(SPLITS)}.")
        parent = self.trained(stage_of(system))
        reading = self.preset.causal if system.endswith("_causal") else self.preset.diffusion
        config = {
            "system": system,
            "decode": dataclasses.asdict(decode),
            "split": split,
            "limit": limit,
            "diffusion": dataclasses.asdict(reading),
        }

        def build(out: Path, work: Path) -> dict[str, Any]:
            examples = getattr(self.world, split)[:limit]
            grammar = replace(self.grammar, trace=system != "ar_no_trace")
            title = f"{system} tau {decode.tau:g}"
            found = evaluate(
                self.policy(system), grammar, examples, decode, self.preset.evaluate.batch, title
            )
            found.write(out / "evaluation.json")
            return {"n": len(found.users), "valid": float(found.valid.mean()), "tpf": found.tpf}

        name = f"evaluation-{system}"
        artifact = self.artifact(name, config, [parent.key], EVALUATE_MODULES, build, together=True)
        return Evaluation.read(artifact.path / "evaluation.json")

    # -- how a stage is built ----------------------------------------------------------------------

    def artifact(
        self,
        name: str,
        config: dict[str, Any],
        parents: Sequence[str],
        modules: Sequence[str],
        build: Callable[[Path, Path], dict[str, Any]],
        seed: int | None = None,
        together: bool = False,
    ) -> Artifact:
        """A stage of these settings, parents and modules, built or found; see `Store`.

        seed None: the training seed.
        """
        seed = self.seed if seed is None else seed
        sources = [f"diffgr2lib.{module}" for module in modules]
        key = stage_key(name, config, seed, list(parents), sources)
        if key not in self._found:
            self._found[key] = self.store.get_or_build(
                name, key, build, config=config, seed=seed, parents=list(parents),
                force=self.force, together=together,
            )  # fmt: skip
        return self._found[key]

    def history(self, name: str) -> History:
        """The training log of a stage."""
        return json.loads((self.trained(name).path / "history.json").read_text())

    def _check_room(self, policy: Policy) -> None:
        """Before any work: the longest prompt and a whole answer fit the model's positions."""
        assert policy.tokenizer is not None
        world, grammar, tokenizer = self.world, self.grammar, policy.tokenizer
        examples = [*world.train, *world.validation, *world.test]
        examples.sort(key=lambda example: -len(grammar.prompt(example).split()))
        longest = max(len(encode_prompt(tokenizer, grammar, one)) for one in examples[:16])
        check_room(policy, longest, self.preset.decode.max_new_tokens)

    def load(self, artifact: Artifact) -> Policy:
        """A trained stage's policy, on this run's device."""
        policy = load(artifact.path)
        move(policy, self.device)
        return policy

    def _start(self) -> Policy:
        model = self.preset.model
        if model.checkpoint:
            words = _sid_tokens(self.world.catalogue, self.grammar)
            return load_checkpoint(model.checkpoint, words)
        return build_policy(
            train_tokenizer(self.world.catalogue, self.grammar),
            model.hidden,
            model.layers,
            model.heads,
            model.intermediate,
            model.max_positions,
            self.seed,
            rope_theta=model.rope_theta,
        )


def stage_of(system: str) -> str:
    """The stage whose weights a system has. Raises `ConfigError` for an unknown system."""
    if system not in READINGS:
        raise ConfigError(f"There is no system {system!r}; use one of {', '.join(READINGS)}.")
    return READINGS[system]


def move(policy: Policy, device: str) -> None:
    """Move the policy's weights, in place."""
    torch.nn.Module.to(policy.model, torch.device(device))


def _sid_tokens(catalogue: Catalogue, grammar: Grammar) -> list[str]:
    """Every SID token of the full form, with its brackets."""
    codes = [
        word
        for level, size in enumerate(catalogue.sid_levels)
        for code in range(size)
        for word in [f"<s_{'abcdefgh'[level]}_{code}>"]
    ]
    return ["<|sid_begin|>", "<|sid_end|>", *codes]
