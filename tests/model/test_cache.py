"""The key/value store: written in place, kept only on request, rows moved all at once."""

import torch

from diffgr2lib.decode.slots import LEFT, WORKING, Slots
from diffgr2lib.model.cache import BlockCache, cache_argument
from tests.tiny import MakePolicy


def small(make_policy: MakePolicy, rows: int = 5) -> BlockCache:
    config = make_policy().model.config
    return BlockCache(config, rows, 6, torch.float32, torch.device("cpu"))


def test_only_what_was_advanced_over_is_kept(make_policy: MakePolicy) -> None:
    cache = small(make_policy)
    first = torch.randn(5, 4, 3, 8)
    keys, values = cache.update(first, -first, 1)
    assert torch.equal(keys, first) and torch.equal(values, -first)
    cache.advance(2)
    second = torch.randn(5, 4, 1, 8)
    keys, _ = cache.update(second, second, 1)
    assert torch.equal(keys, torch.cat([first[:, :, :2], second], dim=2))
    assert keys.data_ptr() == cache.store[1, 0].data_ptr()  # a view: nothing was copied
    assert cache.get_seq_length() == 2


def test_the_forward_argument_is_found_on_this_transformers(make_policy: MakePolicy) -> None:
    name = cache_argument(type(make_policy().model.base_model).forward)
    assert name in ("cache", "past_key_values")


def test_slots_keep_each_row_with_its_keys_through_any_states(make_policy: MakePolicy) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        cache = small(make_policy, 7)
        cache.length = 6
        cache.store.copy_(torch.arange(7.0)[:, None, None, None].expand_as(cache.store))
        slots, gone = Slots(cache), set[int]()
        while slots.alive:
            expected = set(slots.wake().tolist())
            assert expected == set(range(7)) - gone
            while slots.working:
                before = slots.rows.tolist()
                states = torch.randint(0, 3, (len(before),), generator=generator).tolist()
                after = slots.update(states).tolist()
                named = dict(zip(before, states, strict=True))
                gone |= {row for row, state in named.items() if state == LEFT}
                assert set(after) == {row for row, state in named.items() if state == WORKING}
                assert sorted(slots.order) == list(range(7)) and cache.rows == len(after)
                for slot in range(slots.alive):
                    kept = cache.store[:, :, slot, :, : cache.length]
                    assert (kept == slots.order[slot]).all()
