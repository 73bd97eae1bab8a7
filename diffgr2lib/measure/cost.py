"""The cost card: what a million re-rankings take, from measured forward costs."""

from collections.abc import Sequence

import pandas as pd

from diffgr2lib.measure.throughput import Timing

MILLION = 10**6


def device_seconds(
    prefill_s: float, forward_s: float, nfe: float, batch: int = 1, requests: int = MILLION
) -> float:
    """Device-seconds for `requests` re-rankings decoded `batch` side by side.

    prefill_s, forward_s: measured seconds of one prefill and of one later pass of the whole batch,
    at the width that the mode uses. nfe: a request's forward passes, the prefill included.
    """
    return requests / batch * (prefill_s + (nfe - 1) * forward_s)


def break_even(batches: Sequence[int], ratios: Sequence[float]) -> float:
    """The batch size at which a speed-up falls to 1, between the sizes measured.

    ratios: speed-up over AR at each of `batches` (ascending). Linear in log2 of the batch; infinity
    where every ratio is above 1, nan where the first is not.
    """
    pairs = list(zip(batches, ratios, strict=True))
    if not pairs or pairs[0][1] < 1:
        return float("nan")
    for (b0, r0), (b1, r1) in zip(pairs, pairs[1:], strict=False):
        if r1 < 1:
            return float(b0 * (b1 / b0) ** ((r0 - 1) / (r0 - r1)))
    return float("inf")


def cost_card(timings: Sequence[Timing]) -> pd.DataFrame:
    """Each engine at the batch size where it is cheapest, one row an engine.

    Columns: engine, batch, nfe, pass_ms (the batch's seconds by its passes, prefill spread over
    them), device_s (device-seconds for a million re-rankings), relative (to the first engine).
    """
    best: dict[str, dict[str, float | str]] = {}
    for timing in timings:
        # a batch makes as many passes as its slowest row; its mean row's passes price a request
        pass_s = float(timing.seconds.sum() / timing.requests.shape[1] / len(timing.seconds))
        pass_s /= timing.nfe
        spent = device_seconds(pass_s, pass_s, timing.nfe, timing.batch)
        row: dict[str, float | str] = {
            "engine": timing.engine,
            "batch": timing.batch,
            "nfe": timing.nfe,
            "pass_ms": 1e3 * pass_s,
            "device_s": spent,
        }
        if timing.engine not in best or spent < float(best[timing.engine]["device_s"]):
            best[timing.engine] = row
    frame = pd.DataFrame(list(best.values()))
    frame["relative"] = frame["device_s"] / frame["device_s"].iloc[0]
    return frame
