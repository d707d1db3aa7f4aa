"""Guests: what they are, the command line or configuration of their hypervisor, and their CPUs. Pure."""
