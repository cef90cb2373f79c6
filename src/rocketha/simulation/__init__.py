"""A cluster in one process and simulated time, from one seed: the real services on virtual networks and disks."""
