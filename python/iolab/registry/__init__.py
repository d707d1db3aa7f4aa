"""Registered parts: kinds of measure and instruments. The rest of iolab knows them by name and row alone."""
