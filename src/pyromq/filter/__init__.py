"""Subscription filters, by tag and by SQL. Pure."""
