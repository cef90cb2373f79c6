"""The rocketha command and its client library."""
