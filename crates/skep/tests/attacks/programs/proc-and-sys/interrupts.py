# Moves the machine's interrupts to another processor.
# Held by: read-only proc, own users

attack(lambda: open_on_proc("/proc/irq/default_smp_affinity", os.O_WRONLY))
