"""Statements about labs and trials: codes with typed parameters. `report.locale` has the sentences for statements."""
