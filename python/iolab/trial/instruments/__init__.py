"""Instruments that stand beside a measure, whatever it measures: a module each."""
