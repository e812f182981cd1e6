# Reaches files through the agent's root and current directory.
# Held by: capabilities

attack(lambda: f"{len(os.listdir(f'/proc/{agent()}/cwd/'))} files")
