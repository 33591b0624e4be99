"""The protocols that presets are chosen and compared by: same items, splits, seeds and RLS for every method.

Everything, lambda, thresholds, templates, is chosen on training data alone. A protocol lays out a `plan`; `methods` has
what makes features; `classify` runs one under the other; `evaluate` reports.
"""
