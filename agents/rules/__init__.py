"""Rules that sellers follow, listed by name."""
