"""One unbroken ladder of the tiny preset, which every broken run is compared with."""

import logging

import pytest
import torch
from tqdm import tqdm

from diffgr2lib import recipes
from tests.survival.harness import TINY, judge_by_tokens, stages


@pytest.fixture(scope="session")
def ladder(tmp_path_factory):
    """A store with every stage from data to rl and one evaluation, built without a break."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    tqdm.monitor_interval = 0  # no thread that a fork could catch with a lock in its hands
    logging.getLogger("diffgr2lib").setLevel(logging.INFO)
    root = tmp_path_factory.mktemp("ladder")
    made = stages(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipes, "make_judge", judge_by_tokens)
        made.trained("rl")
        made.trained("ar")
    assert all(record["dropped"] < 1 for name in ("ar", "rl") for record in made.history(name))
    made.evaluation("cft", TINY.decode)
    yield root
    torch.set_num_threads(threads)
