"""The compiled level of both loops, and what decoding an invalid answer again costs."""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from diffgr2lib.evaluate.metrics import recall
from diffgr2lib.evaluate.statistics import difference, mean_estimate
from diffgr2lib.measure.compiled import compiled
from diffgr2lib.measure.engines import Engine, ar_engine, block_engine
from diffgr2lib.measure.throughput import Timing, clock, measure, median_estimate, speedup
from diffgr2lib.report.ladder import spread
from diffgr2lib.report.speed import Speed, block_name

log = logging.getLogger(__name__)


def compiled_table(speed: Speed, batch: int = 1) -> pd.DataFrame:
    """AR and block decoding at the highest tau, as they are and compiled, in one interleaved run.

    first_call_s: the call that compiles. over_uncompiled: tokens/s over the same loop uncompiled.
    speedup: over the AR loop of the same level. same: share of answers equal to the uncompiled.
    Empty, with a log line, where nothing can compile (a CPU needs a C++ compiler).
    """
    tau, backend = speed.taus[0], "inductor" if speed.run.claims else "eager"
    pairs: list[tuple[Engine, Engine]] = []
    for name, system in (("ar", "ar_sft"), (block_name(tau), "cft")):
        policy = speed.policies[system]
        make = ar_engine if name == "ar" else block_engine
        config = replace(speed.decode, tau=tau)
        fast = make(compiled(policy, backend), config, f"{name}, compiled")
        # a shorter answer has a smaller cache, a shape of its own: leave the first tokens untimed
        pairs.append((make(policy, config, name), replace(fast, first=config.max_new_tokens)))
    requests, pad = speed.requests(speed.plan.requests[batch]), speed.policies["cft"].pad_token_id
    engines = [engine for pair in pairs for engine in pair]
    first: list[float] = []
    try:
        for engine in engines:
            began = clock()
            for request in requests:
                engine(torch.tensor([request]), torch.ones(1, len(request), dtype=torch.bool))
            first.append(clock() - began)
    except torch._dynamo.exc.BackendCompilerFailed as error:
        log.info("Nothing was compiled: %s", str(error).strip().splitlines()[0])
        return pd.DataFrame()
    timings = measure(engines, requests, batch, pad, speed.plan.repeats)
    rows = [
        _row(timing, timings[n - n % 2], timings[n % 2], cold)
        for n, (timing, cold) in enumerate(zip(timings, first, strict=True))
    ]
    return pd.DataFrame(rows)


def _row(timing: Timing, plain: Timing, ar: Timing, cold: float) -> dict[str, Any]:
    same = [a == b for a, b in zip(timing.outputs, plain.outputs, strict=True)]
    row: dict[str, Any] = {"engine": timing.engine, "batch": timing.batch, "first_call_s": cold}
    row |= spread("tokens_per_s", median_estimate(timing.rate))
    row |= spread("over_uncompiled", speedup(timing, plain))
    row |= spread("speedup", speedup(timing, ar))
    return row | {"tpf": timing.tpf, "same": float(np.mean(same))}


def remask_table(speed: Speed) -> pd.DataFrame:
    """Each tau with and without `remask_once`: validity, Recall@1, passes, and what it changed.

    valid_changed: valid answers that it changed (0, or it is at fault). again: share of users
    decoded again. gain: Recall@1 with less that without, paired by user.
    """
    stages, sweep = speed.run.first, speed.run.preset.evaluate.sweep
    rows = []
    for tau in speed.taus:
        config = replace(speed.decode, tau=tau)
        plain = stages.evaluation("cft", config, limit=sweep)
        again = stages.evaluation("cft", replace(config, remask_once=True), limit=sweep)
        kept = [
            before == after
            for before, after, failed in zip(plain.texts, again.texts, plain.failures, strict=True)
            if not failed
        ]
        row: dict[str, Any] = {"tau": tau, "n": len(plain.users)}
        row |= {"valid_before": float(plain.valid.mean())}
        row |= spread("valid", mean_estimate(again.valid))
        with_it, without = (recall(np.array(one.ranks), 1) for one in (again, plain))
        row |= spread("gain", difference(with_it, without))
        row |= {"again": float(1 - plain.valid.mean()), "valid_changed": kept.count(False)}
        row |= {"nfe_before": float(np.mean(plain.nfe)), "nfe": float(np.mean(again.nfe))}
        rows.append(row | {"tpf_before": plain.tpf, "tpf": again.tpf})
    return pd.DataFrame(rows)
