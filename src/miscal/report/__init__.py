"""From an audit to what people and programs read: a dictionary, one HTML page, JSON, markdown."""
