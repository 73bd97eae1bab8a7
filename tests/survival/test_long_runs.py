"""Memory stays flat over 2,000 decoding calls and 500 training steps."""

import gc
import resource
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from diffgr2lib.decode.block import decode_blocks
from diffgr2lib.decode.prepare import pad_left
from diffgr2lib.recipes import cft
from diffgr2lib.train.loop import fit
from tests.survival.harness import TINY, stages

PAGE = resource.getpagesize()


def resident():
    """Megabytes of this process that lie in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


@pytest.mark.soak
def test_memory_stays_flat_over_2000_decoding_calls(ladder):
    policy = stages(ladder).policy("cft")
    generator, seen = torch.Generator().manual_seed(0), []
    for call in range(2000):
        lengths = torch.randint(8, 96, (4,), generator=generator).tolist()
        prompts = [torch.randint(4, 40, (n,), generator=generator).tolist() for n in lengths]
        prompt, mask = pad_left(prompts, policy.pad_token_id)
        decode_blocks(policy, prompt, mask, replace(TINY.decode, max_new_tokens=16))
        if call % 200 == 199:
            seen.append(resident())
    print("\nMB after each 200 calls:", [round(value) for value in seen])
    assert max(seen[2:]) - seen[1] < 16


@pytest.mark.soak
def test_memory_stays_flat_over_500_training_steps(ladder, tmp_path):
    made = stages(ladder)
    policy, seen = made.policy("cft"), []
    train = replace(TINY.cft, steps=500, eval_every=50, checkpoint_every=50)

    def probe(step):
        seen.append(resident())
        return {}

    fit(policy, cft(made, policy), train, tmp_path, "cft", probe=probe)
    print("\nMB after each 50 steps:", [round(value) for value in seen])
    assert len(seen) == 10 and max(seen[3:]) - seen[2] < 24
