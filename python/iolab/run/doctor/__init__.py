"""Check what a host can do for a lab, with advice on what is missing."""
