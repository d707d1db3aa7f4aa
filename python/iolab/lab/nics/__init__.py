"""Network cards of hosts: their settings, queues and interrupts, and their virtual functions. Pure."""
