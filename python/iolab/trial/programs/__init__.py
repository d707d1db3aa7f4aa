"""Trials of user programs: command lines, values in their output, and the trial itself."""
