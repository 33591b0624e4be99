"""What a feature costs, beside the best that could be done otherwise: measured in one process, turn about."""
