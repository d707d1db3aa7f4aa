"""The hosts of a run: their agents, their facts, and what is copied there."""
