"""The hosts of a run: agents, facts, and copied files."""
