"""Experiment + facts -> Plan: cells, seeded order, time estimate, digest. No side effects."""
