"""Delivery: held pulls, the news that wakes them, the shortcut of plain pulls, SQL filters."""
