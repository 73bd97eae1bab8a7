"""Errors that a user can act on: each message says what, where and how to mend it."""


class KitError(Exception):
    """Base of every error that the kit raises on purpose."""


class ConfigError(KitError):
    """A setting, preset or notebook parameter that cannot be used."""


class DataError(KitError):
    """A data file that is missing, damaged or inconsistent; the message names file and line."""


class GrammarError(KitError):
    """A prompt that the grammar or tokenizer cannot express."""


class ModelError(KitError):
    """A checkpoint, a mask or a decoding request that the model cannot serve."""


class ArtifactError(KitError):
    """A stored artifact that is damaged, foreign or of an older format."""
