"""Behaviours: sellers, vendors with their desks, lenders and tenant segments."""
