"""Configuration: which keys there are, how a file of them is read, checked, shown, changed while the process runs."""
