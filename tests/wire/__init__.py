"""Wire formats: codecs against their specifications, Java's recorded traffic and hostile bytes."""
