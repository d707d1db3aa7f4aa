"""Round-trip trials: the agent's programs at both ends, their metrics and limits."""
