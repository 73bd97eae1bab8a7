"""Training: corruption, losses, the loop."""
