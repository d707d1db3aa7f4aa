"""Hosts: facts, readiness for measurements, and processor and NIC settings. Pure."""
