"""The papers' experiments, run again: one file an experiment, parameters in, a table as plain JSON values out.

Each takes `fast` (a small form, for a test), `folder` (where pictures and what is done so far are kept) and `progress`,
and gives a report that holds its rows, its parameters and how long it took.
"""
