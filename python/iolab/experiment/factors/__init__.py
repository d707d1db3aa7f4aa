"""Factors: dotted paths, levels, the cells of an experiment, and the resolved lab and measures of a cell."""
