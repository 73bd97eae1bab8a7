"""The ladder's stages, each an artifact: data -> mid -> sft -> naive / cft, and their evaluations.

A stage's key hashes the settings that it reads, its seed, its parents' keys and the source of the
modules it uses, so a stage is built once and found again (HIT) until one of these changes.
"""

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgr2lib.artifacts import Artifact, Store, stage_key
from diffgr2lib.config import DecodeConfig, DiffusionConfig, Preset, StageTrain
from diffgr2lib.data import scorecard
from diffgr2lib.data.lists import make_lists
from diffgr2lib.data.scorecard import Scorecard, Trace
from diffgr2lib.data.types import Catalogue, Example, Item
from diffgr2lib.errors import ConfigError
from diffgr2lib.evaluate.metrics import ndcg
from diffgr2lib.evaluate.run import Evaluation, evaluate
from diffgr2lib.model.checkpoint import load, load_checkpoint, save
from diffgr2lib.model.policy import Policy, build_policy, convert
from diffgr2lib.text.grammar import Grammar
from diffgr2lib.text.tokenizer import train_tokenizer
from diffgr2lib.train.loop import History, fit
from diffgr2lib.train.mid import DictionaryRows, lookup_accuracy
from diffgr2lib.train.objectives import Supervised
from diffgr2lib.train.rows import encode_row

DATA_MODULES = ("data", "errors")
MODEL_MODULES = ("model", "text")
TRAIN_MODULES = (*MODEL_MODULES, "train")  # decoding only reports during training
EVALUATE_MODULES = (*MODEL_MODULES, "decode", "evaluate.run", "train.rows")
LOOKUP_GOAL = 0.99  # mid-training stops when every SID level is copied this often


@dataclass(frozen=True)
class World:
    """What the data stage holds: lists, scorecard, kept teacher traces and a report of figures."""

    catalogue: Catalogue
    train: list[Example]
    validation: list[Example]
    test: list[Example]
    card: Scorecard
    traces: list[tuple[int, Trace]]
    report: dict[str, Any]


class Stages:
    """The stages of one preset and one training seed. Every method builds what it lacks."""

    def __init__(
        self, preset: Preset, store: Store, seed: int = 0, device: str = "cpu", force: bool = False
    ) -> None:
        self.preset, self.store, self.seed = preset, store, seed
        self.device, self.force = device, force
        self._found: dict[str, Artifact] = {}

    # -- data --------------------------------------------------------------------------------------

    def data(self) -> Artifact:
        """Candidate lists, scorecard and teacher traces (shared by all training seeds)."""
        config = self.preset.data

        def build(out: Path, work: Path) -> dict[str, Any]:
            return _build_data(config, out)

        return self._stage("data", dataclasses.asdict(config), [], DATA_MODULES, build, seed=0)

    @cached_property
    def world(self) -> World:
        """The data stage, read back."""
        return _read_data(self.data().path)

    @property
    def grammar(self) -> Grammar:
        """The preset's grammar, with the reasoning trace."""
        model, levels = self.preset.model, len(self.world.catalogue.sid_levels)
        return Grammar(form=model.form, answer=model.answer, levels=levels)

    # -- training ----------------------------------------------------------------------------------

    def mid(self) -> Artifact:
        """Mid-training from scratch (or from a checkpoint) until the look-ups stand."""
        return self._train("mid", self.preset.mid, None, self._mid_objective, self._lookup_probe())

    def sft(self) -> Artifact:
        """The AR re-ranker: supervised fine-tuning on kept traces."""
        return self._train("sft", self.preset.sft, self.mid(), self._sft_objective)

    def no_trace(self) -> Artifact:
        """The AR re-ranker without reasoning: the answer alone."""
        return self._train("no_trace", self.preset.no_trace, self.mid(), self._no_trace_objective)

    def cft(self) -> Artifact:
        """Conversion fine-tuning of the AR re-ranker."""
        return self._train("cft", self.preset.cft, self.sft(), self._cft_objective)

    def cft_causal(self) -> Artifact:
        """Conversion fine-tuning with causal context and an AR co-loss, for lossless decoding."""
        return self._train("cft_causal", self.preset.cft, self.sft(), self._cft_causal_objective)

    def policy(self, system: str) -> Policy:
        """A trained policy: `ar_sft`, `ar_no_trace`, `naive` (ar_sft converted), `cft`,
        `cft_causal`, or `ar_causal` (the weights of `cft_causal`, read one token at a time).
        """
        diffusion = self.preset.diffusion
        if system == "ar_sft":
            return self._load(self.sft())
        if system == "ar_no_trace":
            return self._load(self.no_trace())
        if system == "naive":
            return convert(self._load(self.sft()), diffusion.block_size, diffusion.context)
        if system == "cft":
            return self._load(self.cft())
        if system == "cft_causal":
            return self._load(self.cft_causal())
        if system == "ar_causal":
            return replace(self._load(self.cft_causal()), block_size=1)
        raise ConfigError(
            f"There is no system {system!r}; use ar_sft, ar_no_trace, naive, cft, cft_causal or"
            " ar_causal."
        )

    # -- evaluation --------------------------------------------------------------------------------

    def evaluation(
        self, system: str, decode: DecodeConfig, split: str = "test", limit: int | None = None
    ) -> Evaluation:
        """Decode a system over the first `limit` users of a split (all by default), once."""
        parents = {"ar_no_trace": self.no_trace, "cft": self.cft}
        parents |= dict.fromkeys(("cft_causal", "ar_causal"), self.cft_causal)
        parent = parents.get(system, self.sft)()
        config = {
            "system": system,
            "decode": dataclasses.asdict(decode),
            "split": split,
            "limit": limit,
            "diffusion": dataclasses.asdict(
                self.preset.causal if system.endswith("_causal") else self.preset.diffusion
            ),
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
        artifact = self._stage(name, config, [parent.key], EVALUATE_MODULES, build)
        return Evaluation.read(artifact.path / "evaluation.json")

    # -- how a stage is built ----------------------------------------------------------------------

    def _stage(
        self,
        name: str,
        config: dict[str, Any],
        parents: Sequence[str],
        modules: Sequence[str],
        build: Callable[[Path, Path], dict[str, Any]],
        seed: int | None = None,
    ) -> Artifact:
        seed = self.seed if seed is None else seed
        sources = [f"diffgr2lib.{module}" for module in modules]
        key = stage_key(name, config, seed, list(parents), sources)
        if key not in self._found:
            self._found[key] = self.store.get_or_build(
                name, key, build, config=config, seed=seed, parents=list(parents), force=self.force
            )
        return self._found[key]

    def _train(
        self,
        name: str,
        config: StageTrain,
        parent: Artifact | None,
        make: Callable[[Policy], Supervised],
        probe: Callable[[Policy], dict[str, float]] | None = None,
    ) -> Artifact:
        converted = {"cft": self.preset.diffusion, "cft_causal": self.preset.causal}
        diffusion = converted.get(name)
        settings = {
            "train": dataclasses.asdict(config),
            "model": dataclasses.asdict(self.preset.model),
            "diffusion": dataclasses.asdict(diffusion) if diffusion else None,
        }
        parents = [self.data().key, *([parent.key] if parent else [])]

        def build(out: Path, work: Path) -> dict[str, Any]:
            policy = self._start() if parent is None else self._load(parent)
            if diffusion:
                policy = convert(policy, diffusion.block_size, diffusion.context)
            move(policy, self.device)
            report = probe or self._answer_probe(name)
            goal = _lookups_stand if name == "mid" else None
            history = fit(
                policy, make(policy), config, work, name,
                probe=lambda step: report(policy), enough=goal, cpu=self.device == "cpu",
            )  # fmt: skip
            move(policy, "cpu")
            save(policy, out)
            (out / "history.json").write_text(json.dumps(history))
            return {k: v for k, v in history[-1].items()}

        return self._stage(name, settings, parents, TRAIN_MODULES, build)

    def history(self, name: str) -> History:
        """The training log of `mid`, `sft`, `no_trace`, `cft` or `cft_causal`."""
        return json.loads((getattr(self, name)().path / "history.json").read_text())

    def _load(self, artifact: Artifact) -> Policy:
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

    def _dictionary(self, policy: Policy) -> DictionaryRows | None:
        if self.preset.model.form == "full":
            return None
        data = self.preset.data
        assert policy.tokenizer is not None
        return DictionaryRows(
            policy.tokenizer,
            self.grammar,
            self.world.catalogue,
            data.candidates,
            data.history_shown,
        )

    def _mid_objective(self, policy: Policy) -> Supervised:
        config = self.preset.mid
        return Supervised(policy, [], config.batch, self.seed, dictionary=self._dictionary(policy))

    def _rows(self, policy: Policy, config: StageTrain, grammar: Grammar) -> list[Any]:
        assert policy.tokenizer is not None
        weights = (config.trace_weight, config.answer_weight)
        return [
            encode_row(policy.tokenizer, grammar, self.world.train[n], made, *weights)
            for n, made in self.world.traces
        ]

    def _supervised(
        self,
        policy: Policy,
        config: StageTrain,
        trace: bool,
        diffusion: DiffusionConfig | None = None,
    ) -> Supervised:
        rows = self._rows(policy, config, replace(self.grammar, trace=trace))
        return Supervised(
            policy, rows, config.batch, self.seed, diffusion=diffusion is not None,
            dictionary=self._dictionary(policy) if config.mid_share else None,
            share=config.mid_share, ar_weight=diffusion.ar_weight if diffusion else 0.0,
        )  # fmt: skip

    def _sft_objective(self, policy: Policy) -> Supervised:
        return self._supervised(policy, self.preset.sft, trace=True)

    def _no_trace_objective(self, policy: Policy) -> Supervised:
        return self._supervised(policy, self.preset.no_trace, trace=False)

    def _cft_objective(self, policy: Policy) -> Supervised:
        return self._supervised(policy, self.preset.cft, True, self.preset.diffusion)

    def _cft_causal_objective(self, policy: Policy) -> Supervised:
        return self._supervised(policy, self.preset.cft, True, self.preset.causal)

    # -- reports during training -------------------------------------------------------------------

    def _lookup_probe(self) -> Callable[[Policy], dict[str, float]]:
        def probe(policy: Policy) -> dict[str, float]:
            dictionary = self._dictionary(policy)
            return {} if dictionary is None else lookup_accuracy(policy, dictionary)

        return probe

    def _answer_probe(self, name: str) -> Callable[[Policy], dict[str, float]]:
        """Validity and NDCG@3 on a held-out slice of the validation lists."""
        decode, settings = self.preset.decode, self.preset.evaluate

        def probe(policy: Policy) -> dict[str, float]:
            grammar = replace(self.grammar, trace=name != "no_trace")
            examples = self.world.validation[: settings.probe]
            found = evaluate(policy, grammar, examples, decode, settings.batch, f"{name} report")
            score = ndcg(np.array(found.ranks), 3).mean()
            return {"valid": float(found.valid.mean()), "ndcg@3": float(score), "tpf": found.tpf}

        return probe


def move(policy: Policy, device: str) -> None:
    """Move the policy's weights, in place."""
    torch.nn.Module.to(policy.model, torch.device(device))


def _lookups_stand(record: dict[str, float]) -> bool:
    levels = [value for name, value in record.items() if name.startswith("sid_")]
    return bool(levels) and min(levels) > LOOKUP_GOAL


def _sid_tokens(catalogue: Catalogue, grammar: Grammar) -> list[str]:
    """Every SID token of the full form, with its brackets."""
    codes = [
        word
        for level, size in enumerate(catalogue.sid_levels)
        for code in range(size)
        for word in [f"<s_{'abcdefgh'[level]}_{code}>"]
    ]
    return ["<|sid_begin|>", "<|sid_end|>", *codes]


def _build_data(config: Any, out: Path) -> dict[str, Any]:
    """Lists, scorecard and traces of one data configuration, written as JSON."""
    lists = make_lists(config)
    card = scorecard.fit(lists.train, config.point_scale)
    kept = []
    for n, example in enumerate(lists.train):
        rng = np.random.default_rng([config.seed, n])
        made = scorecard.rejection_sample(card, example, rng, config.variants)
        if made is not None:
            kept.append([n, made.theme, list(made.points), list(made.order)])
    themes = [entry[1] for entry in kept]
    report = {
        **lists.report,
        "traces_kept": len(kept),
        "traces_kept_share": len(kept) / len(lists.train),
        "themes": {theme: themes.count(theme) / max(1, len(themes)) for theme in scorecard.THEMES},
    }
    items = [
        [item.id, list(item.sid), item.title, item.brand, item.category, item.price]
        for item in lists.catalogue.items
    ]
    _dump(out / "catalogue.json", {"sid_levels": list(lists.catalogue.sid_levels), "items": items})
    for split in ("train", "validation", "test"):
        _dump(out / f"{split}.json", [example.to_json() for example in getattr(lists, split)])
    _dump(out / "scorecard.json", card.to_json())
    _dump(out / "traces.json", kept)
    _dump(out / "report.json", report)
    return {"train": len(lists.train), "traces_kept": len(kept)}


def _read_data(path: Path) -> World:
    raw = _parse(path / "catalogue.json")
    items = tuple(
        Item(id_, tuple(sid), title, brand, category, price)
        for id_, sid, title, brand, category, price in raw["items"]
    )
    catalogue = Catalogue(items, tuple(raw["sid_levels"]))
    splits = {
        split: [Example.from_json(entry, catalogue) for entry in _parse(path / f"{split}.json")]
        for split in ("train", "validation", "test")
    }
    traces = [
        (n, Trace(theme, tuple(points), tuple(order)))
        for n, theme, points, order in _parse(path / "traces.json")
    ]
    card = Scorecard.from_json(_parse(path / "scorecard.json"))
    return World(catalogue, **splits, card=card, traces=traces, report=_parse(path / "report.json"))


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, separators=(",", ":")) + "\n", encoding="utf-8")


def _parse(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
