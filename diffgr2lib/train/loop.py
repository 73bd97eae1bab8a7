"""The one training loop: micro-batches, two optimizers, a schedule, resumable checkpoints."""

import hashlib
import json
import logging
import math
import os
import shutil
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, gather_object
from safetensors.torch import load_file, save_file
from torch import Tensor
from tqdm import tqdm

from diffgr2lib.config import StageTrain
from diffgr2lib.errors import ArtifactError, ModelError
from diffgr2lib.model.policy import Policy, Scorer
from diffgr2lib.provenance import sha256
from diffgr2lib.train.muon import Muon
from diffgr2lib.train.objectives import Objective

log = logging.getLogger(__name__)

STATE = "state.safetensors"
WHOLE = (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU)
Probe = Callable[[int], dict[str, float]]
History = list[dict[str, float]]


def learning_rate(step: int, config: StageTrain) -> float:
    """Fraction of the peak rate at `step`: linear warm-up, then a cosine down to min_lr."""
    warm = max(1, round(config.warmup * config.steps))
    if step < warm:
        return (step + 1) / warm
    progress = (step - warm) / max(1, config.steps - warm)
    return config.min_lr + (1 - config.min_lr) * 0.5 * (1 + math.cos(math.pi * progress))


def make_optimizers(policy: Policy, config: StageTrain) -> list[torch.optim.Optimizer]:
    """Muon or AdamW for the hidden matrices, AdamW for embeddings, biases and norms."""
    embeddings = {id(policy.model.get_input_embeddings().weight)}
    embeddings.add(id(policy.model.get_output_embeddings().weight))
    hidden: list[Tensor] = []
    other: list[Tensor] = []
    for parameter in policy.model.parameters():
        is_matrix = parameter.ndim == 2 and id(parameter) not in embeddings
        (hidden if is_matrix else other).append(parameter)
    adam: dict[str, Any] = {"betas": (0.9, 0.98), "weight_decay": 0.0}
    muon = config.optimizer == "muon"
    return [
        Muon(hidden, lr=config.lr) if muon else torch.optim.AdamW(hidden, lr=config.lr, **adam),
        torch.optim.AdamW(other, lr=config.lr_embed, **adam),
    ]


def fit(
    policy: Policy,
    objective: Objective[Any],
    config: StageTrain,
    work: Path,
    name: str,
    probe: Probe | None = None,
    enough: Callable[[dict[str, float]], bool] | None = None,
    cpu: bool = True,
) -> History:
    """Train the policy's model in place for config.steps, or until `enough(probe(step))`.

    The loss of a step is the weighted token loss over *all* its rows, whatever the micro-batches
    and processes. work: folder of the checkpoint; when it holds one, training goes on from there
    to the same weights as an unbroken run. Returns one record a logged step. Raises `ModelError`
    at a loss or gradient that is not finite, naming step and rows; the last good checkpoint is
    kept.
    """
    accelerator = Accelerator(cpu=cpu)
    if accelerator.distributed_type not in WHOLE:
        raise ModelError(
            f"accelerate was launched for {accelerator.distributed_type}, but this loop keeps the"
            " whole model on every process; launch it with --multi_gpu or --cpu."
        )
    model = policy.model.to(accelerator.device).train()
    # without DDP, whose forward waits for the others: a process may have more parts, or none
    scorer = accelerator.prepare_model(Scorer(model), evaluation_mode=True)
    optimizers = make_optimizers(policy, config)
    peaks = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    start, history = _resume(work, model, optimizers)
    if history and enough is not None and enough(history[-1]):
        start = config.steps
    bar = tqdm(
        range(start, config.steps), name, initial=start, total=config.steps,
        mininterval=15, disable=not accelerator.is_main_process,
    )  # fmt: skip
    for step in bar:
        for optimizer, rates in zip(optimizers, peaks, strict=True):
            for group, peak in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = peak * learning_rate(step, config)
        record = _step(scorer, objective, config, accelerator, step)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        if not (math.isfinite(record["loss"]) and bool(torch.isfinite(norm))):
            raise ModelError(
                f"{name}: the loss is {record['loss']} (gradient norm {float(norm)}) at step"
                f" {step}, rows {', '.join(objective.batch(step).keys[:8])}. The last good"
                f" checkpoint is kept in {work.name}; lower lr or lr_embed and run the stage again."
            )
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        done = step + 1
        last = done == config.steps
        if done % config.eval_every == 0 or last:
            record |= {"gradient_norm": float(norm), "lr": learning_rate(step, config)}
            if probe is not None:
                model.eval()
                record |= probe(done)
                model.train()
            history.append(record)
            bar.set_postfix_str(" ".join(f"{k} {v:.3g}" for k, v in record.items() if k != "step"))
            last = last or (enough is not None and enough(record))
        if (done % config.checkpoint_every == 0 or last) and accelerator.is_main_process:
            _checkpoint(work, model, optimizers, done, history)
        if last:
            break
    bar.close()
    model.eval()
    return history


def _step(
    scorer: torch.nn.Module,
    objective: Objective[Any],
    config: StageTrain,
    acc: Accelerator,
    step: int,
) -> dict[str, float]:
    """Forward and backward over the step's rows, in micro-batches, each process its share."""
    batch = objective.batch(step)
    total = float(batch.weights.sum())
    rows = len(batch.keys)
    size = config.micro_batch or max(1, math.ceil(rows / acc.num_processes))
    sums = {"loss": 0.0}
    starts = range(acc.process_index * size, rows, acc.num_processes * size)
    for first in starts:
        part = batch.part(slice(first, first + size), acc.device)
        loss, found = objective.loss(scorer, part)
        acc.backward(loss * (1 / max(total, 1e-9)))
        sums["loss"] += float(loss.detach()) / max(total, 1e-9)
        for key, value in found.items():
            sums[key] = sums.get(key, 0.0) + value
    if acc.num_processes > 1 and rows:
        for parameter in scorer.parameters():
            grad = parameter.grad
            parameter.grad = acc.reduce(torch.zeros_like(parameter) if grad is None else grad)
    if acc.num_processes > 1:
        shares = gather_object([sums])
        keys = dict.fromkeys(chain(*shares))  # in the same order each time
        sums = {key: sum(share.get(key, 0.0) for share in shares) for key in keys}
    means = {k: v / max(sums[f"{k}_n"], 1.0) for k, v in sums.items() if f"{k}_n" in sums}
    counted = {k: v for k, v in sums.items() if not k.endswith("_n")}
    return {"step": step + 1, **counted, **means, **batch.report}


def _checkpoint(
    work: Path,
    model: torch.nn.Module,
    optimizers: list[torch.optim.Optimizer],
    step: int,
    history: History,
) -> None:
    """Write `work/step-N` in one rename, then drop the older one."""
    fresh = work / f"writing-{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    tensors = {f"model/{k}": v for k, v in model.state_dict().items()}
    for index, optimizer in enumerate(optimizers):
        for parameter, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{index}/{parameter}/{k}": v for k, v in state.items()}
    kept: dict[int, str] = {}
    unique: dict[str, Tensor] = {}
    for key, tensor in tensors.items():  # tied weights are stored once
        if tensor.data_ptr() and kept.setdefault(tensor.data_ptr(), key) != key:
            continue
        unique[key] = tensor.detach().cpu().contiguous()
    save_file(unique, fresh / STATE)
    progress = {"step": step, "history": history, "seal": _seal(fresh, step, history)}
    (fresh / "progress.json").write_text(json.dumps(progress))
    old = list(work.glob("step-*"))
    os.replace(fresh, work / f"step-{step:07d}")
    for folder in old:
        if folder.name != f"step-{step:07d}":
            shutil.rmtree(folder)


def _seal(folder: Path, step: int, history: History) -> str:
    """Hash of all that a checkpoint holds."""
    return hashlib.sha256(
        f"{sha256(folder / STATE)} {json.dumps([step, history])}".encode()
    ).hexdigest()


def _resume(
    work: Path, model: torch.nn.Module, optimizers: list[torch.optim.Optimizer]
) -> tuple[int, History]:
    """Load the newest checkpoint of `work` into model and optimizers; (0, []) without one."""
    found = sorted(work.glob("step-*"))
    if not found:
        return 0, []
    try:
        progress = json.loads((found[-1] / "progress.json").read_text())
        intact = progress["seal"] == _seal(found[-1], progress["step"], progress["history"])
    except (OSError, ValueError, KeyError, TypeError):
        intact = False
    if not intact:
        raise ArtifactError(
            f"The checkpoint {found[-1]} is damaged. Remove it with `rm -r '{work}'` and run again:"
            " only this stage is rebuilt."
        )
    tensors = load_file(found[-1] / STATE)
    weights = {k.removeprefix("model/"): v for k, v in tensors.items() if k.startswith("model/")}
    model.load_state_dict(weights, strict=False)  # tied weights are stored once
    for index, optimizer in enumerate(optimizers):
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            if key.startswith(f"optimizer/{index}/"):
                _, _, parameter, field = key.split("/")
                state.setdefault(int(parameter), {})[field] = value
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    log.info("resuming at step %d", progress["step"])
    return int(progress["step"]), progress["history"]
