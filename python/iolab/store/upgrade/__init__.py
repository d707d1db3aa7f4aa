"""Upgrade records of older schemas to the current schema; a pure function does each step from one schema to the
next."""
