"""Programs of the user's own: what they run as, what their output says, and one trial of them."""
