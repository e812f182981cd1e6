'use strict';

// Environment variables in layers: process < sandbox < context < execution.
//
// Values arrive as data and are assigned as data, so every value that an environment can hold is fine.
// A layer touches only the variables whose value it changes: what user code assigned by hand stays.

const LAYERS = ['sandbox', 'context'];

/** A name or value that no process environment can hold. Nothing was changed. */
class InvalidEnvironment extends Error {
  name = 'InvalidEnvironment';
}

/** The layers of one kernel, over `process.env`. */
class Environment {
  #layers = new Map(LAYERS.map((layer) => [layer, new Map()]));
  // What the process had under a layered variable, undefined for nothing.
  #beneath = new Map();

  /** Replaces one lasting layer. */
  setLayer(layer, variables) {
    if (!LAYERS.includes(layer)) {
      throw new InvalidEnvironment(`there is no layer '${layer}'; the layers are ${LAYERS.join(', ')}`);
    }
    const checked = checkedVariables(variables);
    const before = this.#effective();
    this.#layers.set(layer, checked);
    const after = this.#effective();
    for (const name of new Set([...before.keys(), ...after.keys()])) {
      if (before.get(name) === after.get(name)) continue;
      if (!before.has(name)) this.#beneath.set(name, process.env[name]);
      assign(name, after.has(name) ? after.get(name) : this.#beneath.get(name));
      if (!after.has(name)) this.#beneath.delete(name);
    }
  }

  /** Sets variables for one execution; returns what `leaveExecution` needs. */
  enterExecution(variables) {
    const checked = checkedVariables(variables);
    const saved = new Map([...checked.keys()].map((name) => [name, process.env[name]]));
    for (const [name, value] of checked) assign(name, value);
    return saved;
  }

  /** Restores what was there before, whatever the cell did to these variables. */
  leaveExecution(saved) {
    for (const [name, value] of saved) assign(name, value);
  }

  #effective() {
    return new Map(LAYERS.flatMap((layer) => [...this.#layers.get(layer)]));
  }
}

function checkedVariables(variables) {
  if (typeof variables !== 'object' || variables === null || Array.isArray(variables)) {
    throw new InvalidEnvironment('the environment must be an object of strings');
  }
  const entries = Object.entries(variables);
  for (const [name, value] of entries) {
    const shown = JSON.stringify(name);
    if (typeof value !== 'string') throw new InvalidEnvironment(`the value of ${shown} is not a string`);
    if (name === '' || /[=\0]/.test(name)) {
      throw new InvalidEnvironment(`${shown} cannot be the name of an environment variable`);
    }
    if (value.includes('\0')) throw new InvalidEnvironment(`the value of ${shown} contains a NUL character`);
    if (!name.isWellFormed() || !value.isWellFormed()) {
      throw new InvalidEnvironment(`${shown} or its value is not valid Unicode`);
    }
  }
  return new Map(entries);
}

function assign(name, value) {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
}

module.exports = { Environment, InvalidEnvironment };
