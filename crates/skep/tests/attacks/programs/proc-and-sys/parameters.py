# Lists what the kernel is built of and with which parameters it runs.
# Held by: minimal sys

attack(lambda: f"{len(os.listdir('/sys/module'))} parts of the kernel")
