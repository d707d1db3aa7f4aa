"""What a host can do for a lab, and what to do about what it cannot."""
