"""Rank candidates with a trained model, one user or a batch."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self, overload

from diffgr2lib.artifacts import Artifact, Store
from diffgr2lib.config import DecodeConfig
from diffgr2lib.data.retriever import Settings
from diffgr2lib.decode.prepare import check_room
from diffgr2lib.errors import ArtifactError, ModelError
from diffgr2lib.evaluate.run import evaluate
from diffgr2lib.model.checkpoint import load, save
from diffgr2lib.model.policy import Policy
from diffgr2lib.serve.shop import Ids, Shop
from diffgr2lib.stages import DATA_MODULES, MODEL_MODULES, Stages, move, stage_of
from diffgr2lib.text.grammar import START, Grammar
from diffgr2lib.train.rows import encode_prompt

FILE = "serving.json"


@dataclass(frozen=True, slots=True)
class Ranked:
    """One user's answer.

    ranking: candidate ids, best first; the given order where the answer is invalid. trace: the
    reasoning as written. valid, failures: whether it is a permutation, and what is amiss. nfe:
    forward passes. seconds: wall time of its whole batch.
    """

    ranking: tuple[int, ...]
    trace: str
    valid: bool
    failures: tuple[str, ...]
    nfe: int
    seconds: float


class Reranker:
    """A policy, its grammar and decoding, and the shop that computes its prompts' evidence."""

    def __init__(
        self, policy: Policy, grammar: Grammar, shop: Shop, decode: DecodeConfig, batch: int = 64
    ) -> None:
        self.policy, self.grammar, self.shop = policy, grammar, shop
        self.decode, self.batch = decode, batch
        self.retriever = shop.retriever()

    @classmethod
    def from_folder(cls, folder: str | Path, device: str = "cpu") -> Self:
        """Read what `python -m diffgr2lib.serve` wrote. Raises `ModelError` or `DataError`."""
        folder = Path(folder)
        try:
            found: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
            grammar = Grammar(**found["grammar"])
            decode, batch = DecodeConfig(**found["decode"]), int(found["batch"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(
                f"{folder / FILE} cannot be read ({error!r}); give a folder that"
                " `python -m diffgr2lib.serve` wrote."
            ) from error
        policy = load(folder)
        move(policy, device)
        return cls(policy, grammar, Shop.read(folder), decode, batch)

    @classmethod
    def from_artifact(cls, key: str, store: Store | None = None, device: str = "cpu") -> Self:
        """The serving artifact with this key, verified. Raises `ArtifactError` for none or many."""
        store = store or Store()
        found = sorted(store.root.glob(f"serving-*/{key}"))
        if len(found) != 1:
            raise ArtifactError(
                f"{len(found)} serving artifacts in {store.root} have the key {key!r}; make one"
                " with `python -m diffgr2lib.serve`, which prints its key."
            )
        stage = found[0].parent.name
        return cls.from_folder(store.load(stage, key).path, device)

    @overload
    def rank(self, history: Ids, candidates: Ids) -> Ranked: ...
    @overload
    def rank(self, history: Sequence[Ids], candidates: Sequence[Ids]) -> list[Ranked]: ...

    def rank(self, history: Any, candidates: Any) -> Ranked | list[Ranked]:
        """Rank candidates, item ids in your retriever's order, by purchases, oldest first.

        Two to ten candidates. One user, or a batch: then both are lists of lists, and the answers
        stand in their order.
        """
        single = not (len(history) and hasattr(history[0], "__len__"))
        if single:
            return self._rank([history], [candidates])[0]
        return self._rank(history, candidates)

    def _rank(self, histories: Sequence[Ids], candidates: Sequence[Ids]) -> list[Ranked]:
        examples = self.shop.examples(self.retriever, histories, candidates)
        assert self.policy.tokenizer is not None
        longest = max(len(encode_prompt(self.policy.tokenizer, self.grammar, e)) for e in examples)
        check_room(self.policy, longest, self.decode.max_new_tokens)
        found = evaluate(self.policy, self.grammar, examples, self.decode, self.batch, "serve")
        answers = []
        for n, one in enumerate(examples):
            parsed = self.grammar.parse(found.texts[n], one)
            order = parsed.ranking(len(one.candidates))
            answers.append(
                Ranked(
                    ranking=tuple(one.candidates[k].item.id for k in order),
                    trace=found.texts[n].split(START)[0].strip(),
                    valid=parsed.valid,
                    failures=tuple(sorted(parsed.failures)),
                    nfe=found.nfe[n],
                    seconds=found.seconds,
                )
            )
        return answers

    def refit(self, purchases: Sequence[Ids]) -> "Reranker":
        """The same model over newer purchases (one sequence a user); buckets stay as trained."""
        rows = [tuple(sequence) for sequence in purchases]
        shop = replace(self.shop, purchases=rows)
        return Reranker(self.policy, self.grammar, shop, self.decode, self.batch)


def serving(stages: Stages, system: str) -> Artifact:
    """The artifact that `Reranker.from_artifact` reads: weights, grammar, decoding and the shop."""
    trained = stages.trained(stage_of(system))
    preset = stages.preset
    decode = replace(preset.decode, speculative=system == "cft_causal")
    config = {"system": system, "decode": asdict(decode), "batch": preset.evaluate.batch}

    def build(out: Path, work: Path) -> dict[str, Any]:
        policy = stages.policy(system)
        move(policy, "cpu")
        save(policy, out)
        settings = Settings(**stages.world.report["retriever"])
        Shop.build(preset.data, settings).write(out)
        grammar = replace(stages.grammar, trace=system != "ar_no_trace")
        served = {**config, "grammar": asdict(grammar)}
        (out / FILE).write_text(json.dumps(served, indent=1) + "\n", encoding="utf-8")
        return {"parameters": policy.model.num_parameters()}

    modules = (*MODEL_MODULES, *DATA_MODULES, "serve.shop")
    return stages.artifact(f"serving-{system}", config, [trained.key], modules, build)


def save_twin(policy: Policy, folder: str | Path) -> None:
    """Write the weights as an ordinary causal LM (the B = 1 reading) that `generate` runs.

    Its generation settings name the end and padding tokens and greedy search; there is no
    `diffusion_config.json`.
    """
    folder = Path(folder)
    policy.model.generation_config.update(
        eos_token_id=policy.eos_token_id, pad_token_id=policy.pad_token_id, do_sample=False
    )
    policy.model.save_pretrained(folder)
    if policy.tokenizer is not None:
        policy.tokenizer.save_pretrained(folder)
