"""What iolab states about a lab or a trial, as codes with typed parameters; `report.words` makes the sentences."""

from iolab.statements import clauses, concerns, doubts, instrument, notes, searches, streams, warnings

__all__ = ["clauses", "concerns", "doubts", "instrument", "notes", "searches", "streams", "warnings"]
