"""Copies of runs for publication, without names that identify hosts, people or places."""
