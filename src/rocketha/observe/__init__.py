"""What a person or a scraper sees of a running rocketha: structured events and logs, metrics, status over HTTP."""
