"""Talking to one agent: transports, client, and an in-memory fake."""
