"""What a broker is made of before it has a role: its tables and store, its turns, what all its features share."""
