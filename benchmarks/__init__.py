"""Java's broker and ours side by side, driven by one Java load client: ``python -m benchmarks --help``."""
