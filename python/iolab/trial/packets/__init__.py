"""Trials with iolab's own frames: load trials, searches, latency, and their metrics, frame accounting and verdicts."""
