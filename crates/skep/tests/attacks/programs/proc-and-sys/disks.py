# Lists the machine's disks, with the names of the files behind them.
# Held by: minimal sys

attack(lambda: f"disks {sorted(os.listdir('/sys/block'))[:4]}")
