"""Learning from the model's own decoding: rollouts, exact replay, distillation and RL."""
