"""A whole fleet on trial: under kills (`chaos`) and under load for a long time (`soak`), with an account at the end."""
