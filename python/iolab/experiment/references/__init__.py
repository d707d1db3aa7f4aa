"""Names of one section in another: that they lead somewhere, in every cell."""
