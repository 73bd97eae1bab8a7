"""Trains and evaluates the cells of an ablation, each an artifact beside the ladder's own."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from diffgr2lib import recipes
from diffgr2lib.ablate.cells import LEARNING, PROBES, START, Cell, cells, served, settings
from diffgr2lib.ablate.compute import Columns, counted
from diffgr2lib.ablate.objective import Varied
from diffgr2lib.ablate.onpolicy import OffPolicy, unconditional
from diffgr2lib.artifacts import Artifact
from diffgr2lib.config import DecodeConfig, Preset
from diffgr2lib.errors import ConfigError
from diffgr2lib.evaluate.run import Evaluation, evaluate
from diffgr2lib.model.checkpoint import save
from diffgr2lib.model.policy import Policy, convert
from diffgr2lib.stages import EVALUATE_MODULES, ON_POLICY, TRAIN_MODULES, Stages, move
from diffgr2lib.text.grammar import LABELS
from diffgr2lib.train.loop import History, Probe, fit
from diffgr2lib.train.objectives import Objective

OWN = ("ablate.masking", "ablate.balance", "ablate.objective")


class Study:
    """The cells of one preset and training seed. Every method builds what it lacks."""

    def __init__(self, stages: Stages) -> None:
        self.stages, self.preset = stages, stages.preset
        self.cells, self.settings = cells(stages.preset), settings(stages.preset)
        self._made: dict[str, Artifact] = {}

    def cell(self, name: str) -> Cell:
        """A cell by name."""
        if name not in self.cells:
            raise ConfigError(f"There is no cell {name!r}; choose one of {', '.join(self.cells)}.")
        return self.cells[name]

    def changed(self, cell: Cell) -> Preset:
        """The preset with the study's short stages and the cell's departure."""
        short, preset = self.settings, self.preset
        return replace(
            preset,
            cft=replace(short.cft, **cell.train),
            cft_more=short.more,
            opd=short.opd,
            rl=short.rl,
            decode=served(preset),
            diffusion=replace(preset.diffusion, **cell.diffusion),
            distillation=replace(
                preset.distillation, **{"samples": short.samples, **cell.distillation}
            ),
        )

    def trained(self, name: str) -> Artifact:
        """The cell's weights."""
        if name not in self._made:
            self._made[name] = self._trained(self.cell(name))
        return self._made[name]

    def _trained(self, cell: Cell) -> Artifact:
        preset = self.changed(cell)
        stages = self.stages.variant(preset)
        start = stages.trained(START) if cell.parent == START else self.trained(cell.parent)
        parents = [stages.data().key, start.key]
        sections = {
            "cft": ("cft", "diffusion"),
            "more": ("cft_more", "diffusion"),
            "opd": ("opd", "diffusion", "distillation", "decode"),
            "rl": ("rl", "diffusion", "reinforcement", "decode"),
        }[cell.recipe]
        if cell.recipe == "opd":
            parents.append(stages.trained(preset.distillation.teacher).key)
        config: dict[str, Any] = {
            part: dataclasses.asdict(getattr(preset, part)) for part in sections
        }
        config |= {"model": dataclasses.asdict(preset.model)}
        config |= {"masking": dataclasses.asdict(cell.masking)}
        if cell.name in LEARNING:
            config |= {"probes": PROBES}
        config |= {"teacher_text": cell.teacher_text, "unconditional": cell.unconditional}
        on_policy = (*ON_POLICY, "ablate.onpolicy") if "decode" in sections else OWN

        def build(out: Path, work: Path) -> dict[str, Any]:
            policy = self.stages.load(start)
            if cell.parent == START:
                reading = preset.diffusion
                policy = convert(policy, reading.block_size, reading.context)
                move(policy, stages.device)
            made = objective(cell, stages, policy)
            train, probe = getattr(preset, sections[0]), None
            with counted() as columns:
                if cell.name in LEARNING:
                    train = replace(train, eval_every=max(1, train.steps // PROBES))
                    probe = reporter(stages, policy, columns)
                history = fit(
                    policy, made, train, work, cell.name, probe, cpu=stages.device == "cpu"
                )
            move(policy, "cpu")
            save(policy, out)
            (out / "history.json").write_text(json.dumps(history))
            return {"cell": cell.name, "columns": columns.spent, **history[-1]}

        modules = (*TRAIN_MODULES, *on_policy)
        return stages.artifact(f"ablate-{cell.recipe}", config, parents, modules, build)

    def history(self, name: str) -> History:
        """The training log of a cell."""
        return json.loads((self.trained(name).path / "history.json").read_text())

    def policy(self, name: str) -> Policy:
        """The cell's policy."""
        return self.stages.load(self.trained(name))

    def evaluation(
        self, name: str, decode: DecodeConfig, split: str = "test", limit: int | None = None
    ) -> Evaluation:
        """Decode a cell over the first `limit` users of a split (by default the study's), once."""
        trained, users = self.trained(name), limit or self.settings.users
        config = {"decode": dataclasses.asdict(decode), "split": split, "limit": users}

        def build(out: Path, work: Path) -> dict[str, Any]:
            examples = getattr(self.stages.world, split)[:users]
            found = evaluate(
                self.policy(name), self.stages.grammar, examples, decode,
                self.preset.evaluate.batch, f"{name}, tau {decode.tau:g}",
            )  # fmt: skip
            found.write(out / "evaluation.json")
            return {"cell": name, "valid": float(found.valid.mean()), "tpf": found.tpf}

        artifact = self.stages.artifact(
            "ablate-evaluation", config, [trained.key], EVALUATE_MODULES, build
        )
        return Evaluation.read(artifact.path / "evaluation.json")


def reporter(stages: Stages, policy: Policy, columns: Columns) -> Probe:
    """Answers on validation users while a cell trains, and the columns spent on training so far."""
    measure = recipes.report(stages, "cft")

    def probe(step: int) -> dict[str, float]:
        spent = columns.spent
        found = measure(policy)
        columns.spent = spent  # what is measured is not training
        return {**found, "columns": float(spent)}

    return probe


def objective(cell: Cell, stages: Stages, policy: Policy) -> Objective[Any]:
    """What a cell minimises. stages: with the cell's preset."""
    preset = stages.preset
    if cell.recipe == "more":
        return recipes.cft_more(stages, policy)
    if cell.recipe == "cft":
        assert policy.tokenizer is not None
        ids: dict[str, int] = policy.tokenizer.get_vocab()
        labels = [ids[label] for label in LABELS[: preset.data.candidates]]
        base = recipes.cft(stages, policy)
        weight = preset.cft.answer_weight
        return Varied(base, cell.masking, preset.cft.steps, labels, weight)
    if cell.recipe == "opd":
        made = recipes.opd(stages, policy)
        if cell.teacher_text:
            return off_policy(made, stages, policy)
        return made
    found = recipes.rl(stages, policy)
    if cell.unconditional:
        plain = recipes.make_judge(stages, policy, 0.0)
        found.judge = unconditional(plain, preset.reinforcement.alpha)
    return found


def off_policy(made: recipes.Distil, stages: Stages, policy: Policy) -> OffPolicy:
    """The same objective on the training traces."""
    rows = recipes.cft(stages, policy).rows
    return OffPolicy(
        made.policy, made.teacher, made.prompts, made.names, made.token_weights,
        stages.preset.opd, made.options, made.decode, made.seed, made.cft, rows=rows,
    )  # fmt: skip
