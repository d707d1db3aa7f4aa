"""One measurement on a standing lab, as a `TrialResult`. Knows nothing of the plan around it."""
