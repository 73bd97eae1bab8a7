"""A dry run counts what a stage would hold on each device, and builds nothing."""

import dataclasses
from pathlib import Path

import pytest
import torch
from transformers import Qwen3Config

from diffgr2lib.artifacts import Store
from diffgr2lib.errors import ConfigError
from diffgr2lib.footprint import Layout, footprint, read_layout, saved_bytes
from diffgr2lib.model.policy import build_model
from diffgr2lib.presets import PRESETS
from diffgr2lib.recipes import RECIPES
from diffgr2lib.stages import Stages
from diffgr2lib.train.__main__ import main
from diffgr2lib.train.loop import make_optimizers
from diffgr2lib.workload import workload

SMOKE = PRESETS["smoke"]
SETTINGS = Path(__file__).resolve().parents[1] / "settings" / "fsdp.json"


def test_the_counted_model_is_the_trained_one_but_for_the_words_of_the_data(tmp_path):
    made = Stages(SMOKE, Store(tmp_path))
    policy = made._start()
    found = footprint(SMOKE, "mid", Layout())
    real = sum(p.numel() for p in policy.model.parameters())
    words = abs(real - found.parameters) / SMOKE.model.hidden
    assert words == int(words) and words < 64  # brands that nobody has, categories not yet read
    optimizers = make_optimizers(policy, SMOKE.mid)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    state = [v for one in optimizers for each in one.state.values() for v in each.values()]
    kept = sum(value.nbytes for value in state if value.ndim)
    assert kept / (4 * real) == pytest.approx(found.optimizer / found.weights, rel=0.02)
    world, tokenizer, grammar = made.world, policy.tokenizer, made.grammar
    for example in world.train:
        missing = SMOKE.data.history_shown - len(example.history)
        known = len(tokenizer(grammar.prompt(example))["input_ids"])
        prompt = found.columns - SMOKE.decode.max_new_tokens
        assert known + missing * (SMOKE.data.sid_levels + 2) == prompt


def test_fake_tensors_keep_the_activations_that_real_ones_keep():
    sizes = (300, 32, 2, 2, 64, 512, 0)
    real = saved_bytes(build_model(*sizes), 3, 90, 20)
    with torch._subclasses.fake_tensor.FakeTensorMode():
        assert saved_bytes(build_model(*sizes), 3, 90, 20) == real > 10**6
        assert saved_bytes(build_model(*sizes), 6, 90, 20) > 1.9 * real


def test_sharding_divides_what_is_kept_and_no_activation():
    whole, sharded = (
        footprint(SMOKE, "cft", Layout(4, layer)) for layer in ("", "Qwen3DecoderLayer")
    )
    for name in ("weights", "gradients", "optimizer"):
        assert getattr(sharded, name) == getattr(whole, name) / 4
    assert sharded.activations == whole.activations and sharded.gathered > whole.gathered == 0
    assert whole.rows == SMOKE.cft.batch // 4
    with pytest.raises(ConfigError, match="no layer 'LlamaDecoderLayer'"):
        footprint(SMOKE, "cft", Layout(4, "LlamaDecoderLayer"))


def test_a_checkpoint_of_eight_billion_parameters_is_counted_from_its_config(tmp_path):
    Qwen3Config(
        vocab_size=151936, hidden_size=4096, intermediate_size=12288, num_hidden_layers=36,
        num_attention_heads=32, num_key_value_heads=8, head_dim=128, tie_word_embeddings=False,
        dtype="bfloat16",
    ).save_pretrained(tmp_path)  # fmt: skip
    model = dataclasses.replace(SMOKE.model, checkpoint=str(tmp_path), form="full")
    preset = dataclasses.replace(SMOKE, model=model)
    found = footprint(preset, "cft", read_layout(SETTINGS))
    assert found.parameters == 8_190_735_360
    assert found.weights == 2 * found.parameters / 8


def test_settings_are_resolved_as_accelerate_reads_them(tmp_path):
    assert read_layout(SETTINGS) == Layout(8, "Qwen3DecoderLayer")
    assert read_layout(SETTINGS, 2) == Layout(2, "Qwen3DecoderLayer")
    for name, text in (
        ("a.yaml", "distributed_type: FSDP"), ("b.json", "{"), ("c.json", "[]"),
        ("d.json", '{"distributed_type": "FSDP", "odd": 1}'),
        ("e.json", SETTINGS.read_text().replace('"Qwen3DecoderLayer"', '""')),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
        with pytest.raises(ConfigError, match=name):
            read_layout(tmp_path / name)
    with pytest.raises(ConfigError, match="missing.json"):
        read_layout(tmp_path / "missing.json")


def test_adamw_keeps_two_numbers_a_weight_where_muon_keeps_one():
    adamw = dataclasses.replace(SMOKE, cft=dataclasses.replace(SMOKE.cft, optimizer="adamw"))
    one, two = (footprint(preset, "cft", Layout()) for preset in (SMOKE, adamw))
    assert one.optimizer < two.optimizer == 2 * two.weights


def test_the_work_of_a_stage_by_hand():
    found = workload(SMOKE, "cft", columns=100, prompt=10)
    assert (found.steps, found.tokens) == (6, 6 * 8 * 100)
    assert found.hours(100, 2) == pytest.approx(4800 / 200 / 3600)
    rolled = (10 + 224 * 16) / 3  # one token a pass, each as wide as a block
    opd = workload(SMOKE, "opd", columns=100, prompt=10)
    assert opd.tokens == pytest.approx(2 * 2 * 2 * (100 + rolled))
    ar = workload(SMOKE, "ar", columns=100, prompt=10)
    assert ar.tokens == pytest.approx(2 * 2 * 4 * (100 + (10 + 224) / 3))


def test_the_papers_preset_is_planned_without_its_checkpoint(capsys):
    words = ["--preset", "paper", "--dry-run", "--settings", str(SETTINGS)]
    assert main([*words, "--prompt-tokens", "2215", "--throughput", "2000"]) == 0
    said = capsys.readouterr().out
    assert "8,190,735,360 parameters" in said and "hours in all at 2000" in said
    assert "1,500" in next(line for line in said.splitlines() if line.startswith("opd"))
    assert main([*words, "--throughput", "0"]) == 2


def test_a_dry_run_prints_every_stage_and_builds_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DIFFGR2_ARTIFACTS", str(tmp_path / "store"))
    assert main(["--preset", "smoke", "--dry-run", "--processes", "8"]) == 0
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines()[2:]] == list(RECIPES)
    assert "processes: 8" in said and not (tmp_path / "store").exists()
    assert main(["cft", "--dry-run", "--processes", "0"]) == 2
    with pytest.raises(SystemExit):
        main(["--preset", "smoke"])
