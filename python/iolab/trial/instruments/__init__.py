"""Instruments that run alongside any measure; each instrument has its own module."""
