# Copies the tree of mounts to work on the copy.
# Held by: filter, namespace limits, capabilities

OPEN_TREE_CLONE = 1
attack(lambda: f"copied a mount, descriptor {call('open_tree', AT_FDCWD, b'/dev/shm', OPEN_TREE_CLONE)}")
