"""Planning: compute cells, seeded order, time estimate and digest from an experiment and host facts.

The package has no side effects.
"""
