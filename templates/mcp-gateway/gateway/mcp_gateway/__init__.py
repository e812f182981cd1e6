"""One server of the Model Context Protocol in front of many, inside a sandbox."""
