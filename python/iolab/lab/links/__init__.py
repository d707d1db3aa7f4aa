"""Links of a lab: how their ends meet, what joins them, what shapes them. Pure."""
