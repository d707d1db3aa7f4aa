"""Counters of kernels, threads and guests during a trial, and their evidence about lost frames."""
