# Uses a name that leads to a neighbour.
# Held by: checked names

attack(lambda: resolve(f"a-{given('NEIGHBOUR').replace('.', '-')}.direct.test", denied=given("NEIGHBOUR")))
