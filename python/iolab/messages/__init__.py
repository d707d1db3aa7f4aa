"""What iolab states about a lab or a trial, as codes with typed parameters; `report.words` makes the sentences."""
