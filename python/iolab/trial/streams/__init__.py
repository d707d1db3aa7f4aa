"""Streams: what limited each, what disturbed it, and how it went over time."""
