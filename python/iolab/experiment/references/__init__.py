"""Check the references between sections in every cell."""
