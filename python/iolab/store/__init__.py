"""The run folder: names, versions, atomic append, read-back. The files are the record; there is no server."""
