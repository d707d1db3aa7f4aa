"""Guests: their parameters, the command line or configuration of their hypervisor, and their CPUs. Pure."""
