//! The packet engine's decisions: when to send which frame, and what became of it. Time is an argument.
