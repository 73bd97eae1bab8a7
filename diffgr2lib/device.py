"""Where a run computes: names of devices, checked before anything is built."""

import re
from typing import Any

import torch

from diffgr2lib.errors import ConfigError


def check_device(value: Any) -> str:
    """A device that PyTorch has here. Raises `ConfigError` for any other value."""
    if not isinstance(value, str) or not re.fullmatch(r"cpu|cuda(:[0-9]{1,3})?", value):
        raise ConfigError(f"device is {value!r}; give 'cpu', 'cuda', 'cuda:1' or 'auto'.")
    kind, _, index = value.partition(":")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"device is {value!r}, but PyTorch sees {torch.cuda.device_count() or 'no'} GPU here;"
            " use 'cpu' or 'auto'."
        )
    return value
