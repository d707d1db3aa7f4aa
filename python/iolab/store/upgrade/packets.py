"""Packet trials of older schemas."""

from iolab.store.upgrade.steps import Steps

PACKETS_STEPS: Steps = {}
