"""Run one measurement in an existing lab and return a `TrialResult`; the package does not depend on plans."""
