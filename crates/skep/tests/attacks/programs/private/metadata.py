# Reads the metadata of the cloud, where credentials lie.
# Held by: denied ranges

attack(lambda: connect("169.254.169.254", 80))
