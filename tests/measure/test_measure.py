"""The measuring library: what it counts and in which order. No test asserts a time."""

from dataclasses import replace

import numpy as np
import pytest

from diffgr2lib.decode import Decoded
from diffgr2lib.measure import cost, forward, lengths, profile
from diffgr2lib.measure.engines import ar_engine, block_engine, forced, generate_engine
from diffgr2lib.measure.throughput import batches, measure, median_estimate, speedup
from diffgr2lib.model import gguf
from tests.tiny import MakePolicy, ragged_prompts, settings


def engines(make_policy: MakePolicy) -> list:
    policy = make_policy(4, end=7)
    config = settings(max_new_tokens=12)
    return [
        ar_engine(policy, config),
        generate_engine(policy, config),
        block_engine(policy, replace(config, tau=0.3), "block"),
        block_engine(policy, replace(config, speculative=True), "speculative"),
    ]


def test_all_levels_of_ar_and_the_lossless_mode_give_the_same_tokens(
    make_policy: MakePolicy,
) -> None:
    prompt, mask = ragged_prompts(6)
    ar, generate, _, lossless = (engine(prompt, mask) for engine in engines(make_policy))
    assert ar.tokens == generate.tokens == lossless.tokens
    assert ar.nfe == generate.nfe


def test_engines_take_turns_and_the_warm_up_is_not_counted(make_policy: MakePolicy) -> None:
    seen = []

    def stub(name: str, size: int):
        def decode(prompt, mask, config):
            seen.append((name, config.max_new_tokens))
            return Decoded([[1] * size] * len(prompt), [], [2] * len(prompt))

        return decode

    made = engines(make_policy)[:2]
    pair = [replace(made[0], decode=stub("a", 3)), replace(made[1], decode=stub("b", 6))]
    a, b = measure(pair, [[5], [6], [7], [8]], batch=2, pad=0, repeats=3)
    assert seen[:2] == [("a", 12), ("b", 12)]  # the warm-up
    rounds = [seen[2 + 4 * n : 6 + 4 * n] for n in range(6)]  # first tokens, then all, of each
    assert all({name for name, _ in one} == {"a", "b"} for one in rounds)
    assert [one[0][0] for one in rounds] == ["a", "b", "b", "a", "a", "b"]
    assert all([new for _, new in one] == [1, 12, 1, 12] for one in rounds)
    assert a.seconds.shape == (3, 2) and a.tokens.tolist() == [[6, 6]] * 3
    assert (a.tpf, b.tpf, a.nfe) == (1.5, 3.0, 2.0)
    assert len(a.latency) == 12 and len(a.outputs) == 4


def test_a_ragged_last_batch_is_left_out() -> None:
    requests = [[1] * n for n in (3, 1, 2, 5, 4)]
    assert [mask.sum(1).tolist() for _, mask in batches(requests, 2, 0)] == [[1, 2], [3, 4]]
    assert len(batches(requests, 8, 0)) == 1


def test_speedup_is_the_paired_median(make_policy: MakePolicy) -> None:
    a, b = measure(engines(make_policy)[:2], [[5, 6], [7, 8]], 1, 0, repeats=2)
    b = replace(a, seconds=a.seconds * 2)
    assert speedup(a, b).value == pytest.approx(2) and speedup(a, b).low == pytest.approx(2)
    found = median_estimate(np.arange(101.0))
    assert found.value == 50 and 30 < found.low < 50 < found.high < 70


def test_time_shares_sum_to_one_and_leave_the_code_as_it_was(make_policy: MakePolicy) -> None:
    before = {(owner, name): vars(owner)[name] for places in profile.PARTS.values()
              for owner, name in places}  # fmt: skip
    for engine in engines(make_policy):
        if engine.name == "generate":
            continue
        shares = profile.time_shares(engine, *ragged_prompts(4), repeats=1)
        assert sum(shares.values()) == pytest.approx(1)
        assert all(share > 0 for share in shares.values())
    assert all(vars(owner)[name] is one for (owner, name), one in before.items())


def test_width_costs_have_one_figure_a_width_and_repeat(make_policy: MakePolicy) -> None:
    table = forward.width_table(make_policy(4).model, "tiny", widths=(1, 4), stored=8, repeats=3)
    assert table["width"].tolist() == [1, 4] and table["ratio"].iloc[0] == 1
    assert (table["ms"] > 0).all() and (table["stored"] == 8).all()


def test_a_missing_smollm_package_is_said_and_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gguf, "MODULE", "no_such_package")
    with caplog.at_level("INFO", logger="diffgr2lib"):
        assert forward.load_smollm() is None
    assert "not installed" in caplog.text


def test_cost_arithmetic() -> None:
    assert cost.device_seconds(0.1, 0.01, 21, batch=10, requests=1000) == pytest.approx(30)
    assert cost.break_even([1, 4, 16], [3.0, 2.0, 1.5]) == np.inf
    assert cost.break_even([1, 4, 16], [3.0, 1.5, 0.5]) == pytest.approx(8)
    assert np.isnan(cost.break_even([1, 4], [0.9, 0.5]))


def test_the_cost_card_keeps_each_engines_cheapest_batch(make_policy: MakePolicy) -> None:
    (one,) = measure(engines(make_policy)[:1], [[5], [6]], 1, 0, repeats=1)
    slow = replace(one, seconds=np.full((1, 2), 2.0), nfe=4.0)
    fast = replace(slow, batch=8, seconds=np.full((1, 2), 4.0))
    card = cost.cost_card([slow, fast])
    assert card["batch"].tolist() == [8]
    assert card["device_s"].iloc[0] == pytest.approx(500_000)
    assert card["pass_ms"].iloc[0] == pytest.approx(1000)


def test_forced_lengths_are_reached_at_the_forced_rate(make_policy: MakePolicy) -> None:
    policy = forced(make_policy(4))
    config = settings(rule="fixed-k", k=2, max_new_tokens=16)
    out = block_engine(policy, config, "forced")(*ragged_prompts(2))
    assert out.nfe == [9, 9] and all(len(row) == 16 for row in out.tokens)
    assert [lengths.fit_rate(tpf, 16) for tpf in (1.0, 1.9, 4.3, 5.6, 30.0)] == [1, 2, 4, 6, 16]
