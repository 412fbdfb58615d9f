"""How calls can be written. Each file reads one shape, and takes what is particular to a format as data."""
