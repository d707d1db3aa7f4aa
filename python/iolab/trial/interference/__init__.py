"""Interference from other processes on a lab's hosts during a trial."""
