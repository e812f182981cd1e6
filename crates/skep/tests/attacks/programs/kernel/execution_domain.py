# Has its memory be executable wherever it is readable.
# Held by: filter

READ_IMPLIES_EXEC = 0x0400000
attack(lambda: in_child(lambda: f"was {call('personality', READ_IMPLIES_EXEC)}"))
