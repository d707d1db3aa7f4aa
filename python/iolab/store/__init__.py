"""The run folder: its file names and versions, appending trials atomically, and reading them back. The files alone are
the record of a run; no server is needed."""
