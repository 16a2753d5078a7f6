"""Finds problems of a cluster or a group, and says what to do.

`survey_rounds` takes a survey: two snapshots of the cluster, and the states of group members. Each check, a
pure function of the survey, returns its findings (`checks`). `examination` does both.
"""
