"""What the relay is held to: whom it asks, for how long, and what it makes of what it hears."""
