"""A learner: it has what a master's replicas have, for other programs, and no part in what they decide."""
