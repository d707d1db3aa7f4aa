"""Work of others on the computers of a lab while a trial runs there."""
