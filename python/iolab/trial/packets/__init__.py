"""Trials of frames of our own: load trials, searches, latency; their figures, balance sheets and verdicts."""
