"""iolab: a laboratory for virtual I/O in one command."""

__version__ = "0.1.0"
