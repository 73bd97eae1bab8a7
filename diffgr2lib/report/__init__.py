"""Report: figures, tables and the ladder made of them."""
