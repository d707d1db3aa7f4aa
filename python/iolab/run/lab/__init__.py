"""The current lab: actions performed through agents, read-back, and undo."""
