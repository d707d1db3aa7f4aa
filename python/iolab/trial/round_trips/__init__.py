"""Round trips on a standing lab: the agent's own programs at both ends, their figures and what limited them."""
