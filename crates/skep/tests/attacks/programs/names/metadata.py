# Uses a name that leads to the metadata of the cloud.
# Held by: checked names

attack(lambda: resolve("a-169-254-169-254.direct.test", denied="169.254.169.254"))
