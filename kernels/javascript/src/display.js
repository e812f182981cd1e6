'use strict';

// The helpers with which cells show more than text: `display`, and `$$` as ijavascript has it.

const { types } = require('node:util');

const { bundleOf, normalised } = require('./bundles');

/** Short names of MIME types, as methods of `$$` and of `$$.display()`. */
const SHORT_NAMES = {
  text: 'text/plain',
  html: 'text/html',
  svg: 'image/svg+xml',
  png: 'image/png',
  jpeg: 'image/jpeg',
  json: 'application/json',
  markdown: 'text/markdown',
  latex: 'text/latex',
  javascript: 'application/javascript',
  pdf: 'application/pdf',
};

/** What cells see of the kernel. */
class Display {
  #outlet;
  #displayed = new Set();
  // What the running cell has asked for.
  #result = null;
  #held = null;

  constructor(outlet) {
    this.#outlet = outlet;
  }

  /** Puts the helpers where cells find them. */
  install() {
    const helpers = { display: this.#displayFunction(), $$: this.#dollars() };
    for (const [name, value] of Object.entries(helpers)) {
      Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
    }
  }

  /** A new cell begins. */
  begin() {
    this.#result = null;
    this.#held = null;
  }

  /** What the cell shall be worth instead of its value, or null. */
  get result() {
    return this.#result;
  }

  /** A promise of the end that a cell announced with `$$.async()`, or null. */
  get held() {
    return this.#held?.promise ?? null;
  }

  #displayFunction() {
    const display = (value, { raw = false } = {}) => {
      const bundle = raw ? normalised(value) : bundleOf(value);
      if (types.isPromise(bundle)) return bundle.then((whole) => this.#outlet.display(whole));
      this.#outlet.display(bundle);
      return undefined;
    };
    for (const [name, mime] of Object.entries(SHORT_NAMES)) {
      display[name] = (content) => this.#outlet.display(normalised({ [mime]: content }));
    }
    display.mime = (bundle) => this.#outlet.display(normalised(bundle));
    return display;
  }

  #dollars() {
    const settle = (bundle) => {
      this.#result = bundle;
      this.#held?.resolve();
    };
    const dollars = senders(settle);
    dollars.display = (id) => senders((bundle) => this.#show(bundle, id));
    dollars.async = () => {
      this.#held ??= Promise.withResolvers?.() ?? withResolvers();
    };
    dollars.done = () => this.#held?.resolve();
    dollars.sendResult = async (value) => settle(value === undefined ? null : await bundleOf(value));
    dollars.sendError = (error) => {
      if (this.#held === null) throw error;
      this.#held.reject(error);
    };
    dollars.clear = ({ wait = false } = {}) => this.#outlet.clearOutput(wait);
    return dollars;
  }

  #show(bundle, id) {
    const update = id !== undefined && this.#displayed.has(id);
    if (id !== undefined) this.#displayed.add(id);
    this.#outlet.display(bundle, { id, update });
  }
}

function senders(send) {
  const object = { mime: (bundle) => send(normalised(bundle)) };
  for (const [name, mime] of Object.entries(SHORT_NAMES)) {
    object[name] = (content) => send(normalised({ [mime]: content }));
  }
  return object;
}

function withResolvers() {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
}

module.exports = { Display };
