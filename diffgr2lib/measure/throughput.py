"""Timing engines side by side: warm-up, then A B A B, medians with intervals, per request.

Tokens are counted up to and including the end token; padding and what follows the end is nobody's
throughput.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from diffgr2lib.decode.prepare import pad_left
from diffgr2lib.decode.trajectory import Decoded
from diffgr2lib.evaluate.statistics import Estimate
from diffgr2lib.measure.engines import Engine
from diffgr2lib.measure.memory import peak_memory

Requests = Sequence[list[int]]  # prompts as token ids


@dataclass(slots=True)
class Timing:
    """One engine at one batch size. Arrays run over the repeats, [R] or [R, batches].

    seconds: wall time of each batch. first: seconds to the first tokens. tokens: response tokens.
    requests: rows of each batch. peak: bytes above the start, nan where not measured.
    """

    engine: str
    batch: int
    seconds: np.ndarray
    first: np.ndarray
    tokens: np.ndarray
    requests: np.ndarray
    nfe: float
    tpf: float
    peak: float
    outputs: list[list[int]]

    @property
    def rate(self) -> np.ndarray:
        """Tokens a second in each repeat, [R]."""
        return self.tokens.sum(1) / self.seconds.sum(1)

    @property
    def latency(self) -> np.ndarray:
        """Seconds of each request, all repeats: that of its batch."""
        return np.repeat(self.seconds.ravel(), self.requests.ravel().astype(int))

    def summary(self) -> dict[str, float]:
        """Medians over the repeats; p50 and p95 over requests, in seconds."""
        latency = self.latency
        return {
            "tokens_per_s": float(np.median(self.rate)),
            "requests_per_s": float(np.median(self.requests.sum(1) / self.seconds.sum(1))),
            "first_token_s": float(np.median(self.first)),
            "p50_s": float(np.quantile(latency, 0.5)),
            "p95_s": float(np.quantile(latency, 0.95)),
            "nfe": self.nfe,
            "tpf": self.tpf,
            "peak_mib": self.peak / 2**20,
        }


def batches(requests: Requests, batch: int, pad: int) -> list[tuple[Tensor, Tensor]]:
    """Requests in order of length, in batches; a last smaller batch is left out if others stand."""
    order = sorted(requests, key=len)
    groups = [order[n : n + batch] for n in range(0, len(order), batch)]
    whole = [group for group in groups if len(group) == batch] or groups
    return [pad_left(group, pad) for group in whole]


def measure(
    engines: Sequence[Engine], requests: Requests, batch: int, pad: int, repeats: int = 5
) -> list[Timing]:
    """Time every engine on the same batches, interleaved: each batch goes through all in turn.

    The order turns by one with every batch, so that none always runs behind the same other. One
    untimed pass over the first batch warms each engine up, and measures its memory.
    """
    work = batches(requests, batch, pad)
    E, R, G = len(engines), repeats, len(work)
    seconds, first, tokens = np.zeros((3, E, R, G))
    outputs: list[list[Decoded]] = [[] for _ in engines]
    peaks = [peak_memory(partial(engine, *work[0])) for engine in engines]
    for repeat in range(R):
        for place, (prompt, mask) in enumerate(work):
            for turn in range(E):
                number = (turn + repeat + place) % E
                engine = engines[number]
                began = clock()
                engine.begin(prompt, mask)
                first[number, repeat, place] = clock() - began
                began = clock()
                out = engine(prompt, mask)
                seconds[number, repeat, place] = clock() - began
                tokens[number, repeat, place] = sum(map(len, out.tokens))
                if repeat == 0:
                    outputs[number].append(out)
    counts = np.broadcast_to([len(prompt) for prompt, _ in work], (R, G))
    return [
        Timing(
            engine.name,
            batch,
            seconds[n],
            first[n],
            tokens[n],
            counts,
            nfe=float(np.mean([x for out in outputs[n] for x in out.nfe])),
            tpf=float(tokens[n, 0].sum() / sum(x for out in outputs[n] for x in out.nfe)),
            peak=peaks[n],
            outputs=[row for out in outputs[n] for row in out.tokens],
        )
        for n, engine in enumerate(engines)
    ]


def clock() -> float:
    """Seconds, after all work given to a GPU is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def speedup(fast: Timing, slow: Timing, draws: int = 2000, seed: int = 0) -> Estimate:
    """Ratio of tokens a second, the median over batches run side by side, and its 95 % interval.

    Both engines served the same batches in the same repeats, so the bootstrap draws pairs.
    """
    ratios = (fast.tokens / fast.seconds / (slow.tokens / slow.seconds)).ravel()
    return median_estimate(ratios, draws, seed)


def median_estimate(values: np.ndarray, draws: int = 2000, seed: int = 0) -> Estimate:
    """Median of values [M] with its bootstrap 95 % interval."""
    picks = np.random.default_rng(seed).integers(len(values), size=(draws, len(values)))
    low, high = np.quantile(np.median(values[picks], axis=1), [0.025, 0.975])
    return Estimate(float(np.median(values)), float(low), float(high), len(values), 1)
