"""Measuring decoders: what is compared, how it is timed, where the time goes, what it costs."""
