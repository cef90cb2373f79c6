"""The controller's rules, mirrored from src/rocketha/controller."""
