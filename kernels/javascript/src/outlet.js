'use strict';

// Everything the kernel says, as messages of the protocol.
//
// One object knows which execution is running, so that output of timers and tasks is attributed in one
// place: to the execution that runs when the output is made, or to none.

const { pieces, quote, toJson } = require('./encoding');

function now() {
  return Date.now() * 1000;
}

function bundleJson(data) {
  const entries = Object.entries(data).map(([mime, value]) => `${quote(mime)}:${toJson(value)}`);
  return `{${entries.join(',')}}`;
}

/** Composes messages and hands them to the wire. */
class Outlet {
  #wire;
  #parent = 'null';

  constructor(wire) {
    this.#wire = wire;
  }

  /** The execution was accepted under this number; output belongs to it from now on. */
  started(id, count) {
    this.#parent = toJson(id);
    const input = `{"type":"execute_input","parent":${this.#parent},"execution_count":${count},"time":${now()}}`;
    this.#wire.begin(this.#parent, this.#status('busy'), input);
  }

  /** The end of an execution: its reply, and idle. What follows belongs to none. */
  finished(reply) {
    const messages = [this.#reply(this.#parent, reply), this.#status('idle')];
    this.#parent = 'null';
    this.#wire.end(...messages);
  }

  /** The reply to a request that is no execution. */
  answer(id, reply) {
    this.#wire.send(this.#reply(toJson(id ?? null), reply));
  }

  /** Text of a stream. */
  text(name, text) {
    const head = `{"type":"stream","parent":${this.#parent},"name":"${name}","time":${now()},"text":`;
    for (const piece of pieces(text)) this.#wire.send(`${head}${quote(piece)}}`);
  }

  /** Something displayed, or a new version of it. */
  display(data, { id, update = false } = {}) {
    const type = update ? 'update_display_data' : 'display_data';
    const transient = id === undefined ? '{}' : toJson({ display_id: String(id) });
    this.#wire.send(
      `{"type":"${type}","parent":${this.#parent},"time":${now()},"data":${bundleJson(data)},` +
        `"metadata":{},"transient":${transient}}`,
    );
  }

  /** The value of the cell. */
  result(count, data) {
    this.#wire.send(
      `{"type":"execute_result","parent":${this.#parent},"time":${now()},"execution_count":${count},` +
        `"data":${bundleJson(data)},"metadata":{}}`,
    );
  }

  /** What ended the cell. */
  error({ kind, name, value, traceback }) {
    this.#wire.send(
      `{"type":"error","parent":${this.#parent},"time":${now()},"kind":"${kind}","ename":${quote(name)},` +
        `"evalue":${quote(value)},"traceback":${toJson(traceback)}}`,
    );
  }

  /** The cell asks for a line. */
  inputRequest(id, prompt) {
    this.#wire.send(
      `{"type":"input_request","parent":${this.#parent},"time":${now()},"id":${quote(id)},` +
        `"prompt":${quote(prompt)},"password":false}`,
    );
  }

  clearOutput(wait) {
    this.#wire.send(`{"type":"clear_output","parent":${this.#parent},"time":${now()},"wait":${Boolean(wait)}}`);
  }

  #status(state) {
    return `{"type":"status","parent":${this.#parent},"state":"${state}","time":${now()}}`;
  }

  #reply(parent, fields) {
    return `{"type":"reply","parent":${parent},${toJson(fields).slice(1)}`;
  }
}

module.exports = { Outlet };
