"""Tables 3 and `throughput`: decoders side by side, their speed with their quality."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from diffgr2lib.config import DecodeConfig
from diffgr2lib.decode.prepare import pad_left
from diffgr2lib.evaluate.metrics import recall
from diffgr2lib.evaluate.run import Evaluation
from diffgr2lib.evaluate.statistics import Estimate, difference, mean_estimate
from diffgr2lib.measure.cost import break_even
from diffgr2lib.measure.engines import Engine, ar_engine, block_engine, generate_engine
from diffgr2lib.measure.forward import load_smollm, width_costs, width_table
from diffgr2lib.measure.plan import plan
from diffgr2lib.measure.profile import time_shares
from diffgr2lib.measure.throughput import Timing, measure, median_estimate, speedup
from diffgr2lib.model.policy import Policy
from diffgr2lib.report.ladder import spread
from diffgr2lib.train.rows import encode_prompt

if TYPE_CHECKING:
    from diffgr2lib.run import Run

LOSSLESS = "speculative"


class Speed:
    """The engines of one run. Lossless decoding is held against AR decoding of its own weights
    (`ar_causal`), block decoding against its teacher (`ar`).
    """

    def __init__(self, run: "Run") -> None:
        stages, decode = run.first, run.preset.decode
        self.run, self.plan, self.decode = run, plan(run.preset.quick), decode
        self.taus = tuple(tau for tau in run.preset.evaluate.taus if tau < 1) or (0.9,)
        self.policies: dict[str, Policy] = {
            name: stages.policy(name) for name in ("ar_sft", "cft", "ar_causal", "cft_causal")
        }
        teacher, cft = self.policies["ar_sft"], self.policies["cft"]
        self.engines: list[Engine] = [
            ar_engine(teacher, decode),
            generate_engine(teacher, decode),
            *(block_engine(cft, replace(decode, tau=tau), block_name(tau)) for tau in self.taus),
            ar_engine(self.policies["ar_causal"], decode, "ar_causal"),
            block_engine(self.policies["cft_causal"], self.lossless, LOSSLESS),
        ]

    @property
    def lossless(self) -> DecodeConfig:
        """The preset's decoding, made lossless."""
        return replace(self.decode, speculative=True)

    def requests(self, count: int) -> list[list[int]]:
        """Prompts of the first test users, as token ids."""
        policy, world = self.policies["cft"], self.run.first.world
        assert policy.tokenizer is not None
        examples, grammar = world.test[:count], self.run.first.grammar
        return [encode_prompt(policy.tokenizer, grammar, example) for example in examples]

    def timings(self) -> list[Timing]:
        """All engines at every batch size of the plan, interleaved."""
        pad = self.policies["cft"].pad_token_id
        found = []
        for batch, count in self.plan.requests.items():
            found += measure(self.engines, self.requests(count), batch, pad, self.plan.repeats)
        return found

    def evaluation(self, engine: str) -> Evaluation:
        """Quality at the engine's operating point, on the users of the sweep or more."""
        stages, sweep = self.run.first, self.run.preset.evaluate.sweep
        if engine in ("ar", "generate"):
            return stages.evaluation("ar_sft", self.decode)
        if engine == "ar_causal":
            return stages.evaluation("ar_causal", self.decode, limit=self.plan.lossless)
        if engine == LOSSLESS:
            return stages.evaluation("cft_causal", self.lossless, limit=self.plan.lossless)
        tau = float(engine.removeprefix("block "))
        return stages.evaluation("cft", replace(self.decode, tau=tau), limit=sweep)

    def draft_table(self, confidences: Sequence[float]) -> pd.DataFrame:
        """Lossless decoding by draft_tau on the sweep's users: TPF, passes, identity with AR."""
        stages, sweep = self.run.first, self.run.preset.evaluate.sweep
        ar = self.evaluation("ar_causal").texts
        rows = []
        for confidence in confidences:
            config = replace(self.lossless, draft_tau=confidence)
            found = stages.evaluation("cft_causal", config, limit=min(64, sweep))
            same = [a == b for a, b in zip(found.texts, ar, strict=False)]
            row = {"draft_tau": confidence, "n": len(same), "tpf": found.tpf}
            row |= {"nfe": float(np.mean(found.nfe)), "identical_to_ar": float(np.mean(same))}
            rows.append(row)
        return pd.DataFrame(rows)

    def widths(self) -> dict[str, int]:
        """Columns of each engine's usual pass."""
        B = self.policies["cft"].block_size
        named = {engine.name: B for engine in self.engines}
        return named | {"ar": 1, "generate": 1, "ar_causal": 1, LOSSLESS: 2 * B}


def block_name(tau: float) -> str:
    """`block 0.9`: an engine's name."""
    return f"block {tau:g}"


def baseline(engine: str) -> str:
    """The AR loop that an engine's speed-up is taken over."""
    return "ar_causal" if engine in ("ar_causal", LOSSLESS) else "ar"


def _pairs(timings: Sequence[Timing]) -> list[tuple[Timing, Timing]]:
    """Each timing with that of its baseline at the same batch size."""
    found = {(timing.engine, timing.batch): timing for timing in timings}
    return [(timing, found[baseline(timing.engine), timing.batch]) for timing in timings]


def frontier_table(speed: Speed, timings: Sequence[Timing]) -> pd.DataFrame:
    """Table 3: mode, weights, tau, batch, quality on n users, speed, and identity with AR.

    speedup is over our AR loop with the AR weights that the engine answers to. identical_to_ar:
    share of answers equal to those of that AR model, on `identical_n` users.
    """
    rows = []
    for timing, slow in _pairs(timings):
        name = timing.engine
        found, ar = speed.evaluation(name), speed.evaluation(baseline(name))
        n = min(speed.run.preset.evaluate.sweep, len(found.users), len(ar.users))
        both = min(len(found.users), len(ar.users))
        same = [a == b for a, b in zip(found.texts[:both], ar.texts[:both], strict=True)]
        block = name.startswith("block")
        mode = "block" if block else name if name in (LOSSLESS, "generate") else "ar"
        row: dict[str, Any] = {
            "mode": mode,
            "weights": "cft" if block else "ar_sft" if baseline(name) == "ar" else "cft_causal",
            "tau": float(name.removeprefix("block ")) if block else None,
            "batch": timing.batch,
            "n": n,
        }
        row |= spread("recall@1", mean_estimate(recall(np.array(found.ranks[:n]), 1)))
        row |= spread("valid", mean_estimate(found.valid[:n]))
        row |= spread("tokens_per_s", median_estimate(timing.rate))
        row |= spread("speedup", speedup(timing, slow))
        row |= {"tpf": found.tpf, "identical_to_ar": float(np.mean(same)), "identical_n": both}
        rows.append(row)
    return pd.DataFrame(rows)


def throughput_table(speed: Speed, timings: Sequence[Timing]) -> pd.DataFrame:
    """`throughput`: times, passes and memory of every engine and batch size.

    roofline: tokens/s over batch x TPF / time of one pass of the engine's width; of_ceiling: over
    batch x B / time of one B-wide pass, as if a block took one pass.
    """
    used = speed.requests(max(speed.plan.requests.values()))
    stored = int(np.median([len(prompt) for prompt in used])) + speed.decode.max_new_tokens // 3
    policy, width = speed.policies["cft"], speed.widths()
    B = policy.block_size
    kinds = sorted({*width.values(), B})
    cost: dict[tuple[int, int], float] = {}
    for batch in speed.plan.requests:
        seconds = width_costs(policy.model, kinds, stored, batch, repeats=9)
        cost |= {(batch, k): float(np.median(s)) for k, s in zip(kinds, seconds, strict=True)}
    rows = []
    for timing in timings:
        figures = timing.summary()
        pass_s = cost[timing.batch, width[timing.engine]]
        rate = figures["tokens_per_s"] / timing.batch
        row = {"engine": timing.engine, "batch": timing.batch, **figures}
        row["pass_ms"] = 1e3 * pass_s
        row["roofline"] = rate * pass_s / timing.tpf
        row["of_ceiling"] = rate * cost[timing.batch, B] / B
        rows.append(row)
    return pd.DataFrame(rows)


def time_table(speed: Speed, batch: int) -> pd.DataFrame:
    """Shares of a decoding call's time by part, for the AR loop, block and lossless decoding."""
    prompt, mask = pad_left(speed.requests(batch), speed.policies["cft"].pad_token_id)
    chosen = {"ar", block_name(speed.taus[0]), LOSSLESS}
    rows = [
        {"engine": engine.name, "batch": batch, **time_shares(engine, prompt, mask)}
        for engine in speed.engines
        if engine.name in chosen
    ]
    return pd.DataFrame(rows)


def width_tables(speed: Speed) -> pd.DataFrame:
    """Cost by width of the run's own model, and of SmolLM2-135M where its package is installed."""
    options: dict[str, Any] = {"widths": speed.plan.widths, "stored": speed.plan.stored}
    own = speed.policies["cft"].model
    tables = [width_table(own, speed.run.preset.name, **options)]
    if speed.run.claims:
        device = speed.run.parameters.device
        real = load_smollm(device)
        if real is not None:
            tables.append(width_table(real, "SmolLM2-135M", **options, repeats=7))
    return pd.concat(tables, ignore_index=True)


def when_it_pays(table: pd.DataFrame, widths: pd.DataFrame) -> str:
    """In words, from table 3 and the width table: up to which batch, and from which TPF."""
    lines = []
    for mode, weights in (("block", "cft"), (LOSSLESS, "cft_causal")):
        part = table[(table["mode"] == mode) & (table["weights"] == weights)]
        for tau, rows in part.groupby("tau", dropna=False):
            name = LOSSLESS if pd.isna(tau) else block_name(float(str(tau)))
            at = break_even(rows["batch"].tolist(), rows["speedup"].tolist())
            gains = ", ".join(
                f"{gain:.2f}x at batch {batch}"
                for batch, gain in zip(rows["batch"], rows["speedup"], strict=True)
            )
            end = (
                "pays at every batch measured" if np.isinf(at) else f"pays to about batch {at:.0f}"
            )
            end = "slower at batch 1 already" if np.isnan(at) else end
            lines.append(f"{name}: {rows['tpf'].iloc[0]:.2f} tokens a pass; {gains}; {end}.")
    for (model, threads), rows in widths.groupby(["model", "threads"]):
        priced = rows.set_index("width")["ratio"]
        prices = ", ".join(f"{w} wide {priced[w]:.2f}x" for w in priced.index if w in (16, 32))
        lines.append(f"{model} on {threads} threads, one row: a pass costs {prices} a 1-wide one.")
    return "\n".join(lines)


def recall_gain(a: Evaluation, b: Evaluation) -> Estimate:
    """Recall@1 of a less that of b over the users of both, paired."""
    n = min(len(a.users), len(b.users))
    return difference(recall(np.array(a.ranks[:n]), 1), recall(np.array(b.ranks[:n]), 1))


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """Table 3 for people: each value with its interval in one cell."""
    shown = table[["mode", "weights", "tau", "batch", "n"]].copy()
    shown["tau"] = ["" if pd.isna(tau) else f"{tau:g}" for tau in table["tau"]]
    for name, form in (("recall@1", ".3f"), ("valid", ".3f"), ("tokens_per_s", ".0f"),
                       ("speedup", ".2f")):  # fmt: skip
        cells = zip(table[name], table[f"{name}_low"], table[f"{name}_high"], strict=True)
        shown[name] = [f"{v:{form}} [{low:{form}}, {high:{form}}]" for v, low, high in cells]
    shown["tpf"] = table["tpf"].round(2)
    shown["identical_to_ar"] = table["identical_to_ar"].round(3)
    return shown
