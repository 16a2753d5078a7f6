"""Finds out what is wrong with a cluster or a group, and says what to do.

A survey is gathered first, everything that the checks look at (`survey`, `groups`); then each check, a pure
function of the survey, says what it finds (`checks`). `examination` does both.
"""
