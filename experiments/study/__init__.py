"""Answers that need no run: cost of ownership, break-even, loans, flip prices, and the claims of the source article."""
