"""Links of a lab: link types, the interfaces between their ends, and their shapes. Pure."""
