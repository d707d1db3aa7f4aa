"""The lab that stands: actions carried out through agents, read back, undone."""
