"""Communication with one agent: transports, and the client."""
