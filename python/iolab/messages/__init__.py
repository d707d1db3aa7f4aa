"""What iolab states about a lab or a trial, as codes with typed parameters; `report.locale` makes the sentences."""
