"""Registered kinds of measures and instruments, which other packages use only through their names and rows."""
