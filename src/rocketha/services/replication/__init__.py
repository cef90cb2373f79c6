"""A broker's log and tables at several replicas: roles, orders, the links between master and slaves."""
