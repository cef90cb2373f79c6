"""What rocketha.testing gives to tests of others."""
