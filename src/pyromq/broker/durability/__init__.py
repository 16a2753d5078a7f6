"""Durability: when a write may be acknowledged, and how files leave the disk."""
