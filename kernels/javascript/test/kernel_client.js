'use strict';

// The peer of a kernel, as small as it can be: it also documents how a peer has to behave.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const { FrameReader } = require('../src/frame_reader');

const LAUNCHER = path.join(__dirname, '..', 'skep-javascript-kernel');
const DEADLINE_MILLISECONDS = 30_000;

/** The messages of one execution. */
class Outcome extends Array {
  ofType(type) {
    return [...this].filter((message) => message.type === type);
  }

  text(name = 'stdout') {
    const streams = this.ofType('stream').filter((message) => message.name === name);
    return streams.map(({ text }) => text).join('');
  }

  /** The MIME bundle of the cell's value, or undefined. */
  get value() {
    const results = this.ofType('execute_result');
    assert.ok(results.length <= 1, JSON.stringify(this));
    return results[0]?.data;
  }

  get displays() {
    return this.ofType('display_data').map(({ data }) => data);
  }

  get error() {
    return this.ofType('error')[0];
  }

  get reply() {
    return this.ofType('reply')[0];
  }

  /** This outcome, which must be a success. */
  ok() {
    assert.equal(this.reply.status, 'ok', JSON.stringify(this));
    return this;
  }
}

/** One kernel and the connection to it. */
class KernelClient {
  #frames = new FrameReader();
  #requests = 0;
  #wake = () => {};
  #ended = false;

  constructor({ language = 'javascript', launcher = LAUNCHER, cwd = '/tmp', env = {}, stdio = 'pipe' } = {}) {
    this.process = spawn(launcher, ['--language', language, '--socket-fd', '3'], {
      stdio: ['ignore', 'ignore', stdio, 'pipe'],
      cwd,
      env: { ...process.env, ...env },
      detached: true,
    });
    this.pid = this.process.pid;
    this.lastWords = '';
    this.process.stderr?.on('data', (data) => (this.lastWords += data));
    this.socket = this.process.stdio[3];
    this.socket.on('data', (data) => {
      this.#frames.feed(data);
      this.#wake();
    });
    this.socket.on('error', () => {});
    this.socket.on('close', () => {
      this.#ended = true;
      this.#wake();
    });
    this.exited = new Promise((resolve) => this.process.on('exit', (code, signal) => resolve({ code, signal })));
  }

  /** Waits for the hello. */
  static async start(options) {
    const client = new KernelClient(options);
    client.hello = await client.receive();
    return client;
  }

  async receive() {
    const deadline = setTimeout(() => this.#fail(), DEADLINE_MILLISECONDS);
    try {
      for (;;) {
        const frame = this.#frames.next();
        if (frame !== null) {
          const text = frame.toString('latin1');
          assert.match(text, /^[\x20-\x7e]*$/);
          return JSON.parse(text);
        }
        if (this.#ended) throw new Error(`the kernel hung up; ${this.lastWords}`);
        await new Promise((resolve) => (this.#wake = resolve));
      }
    } finally {
      clearTimeout(deadline);
    }
  }

  #fail() {
    this.lastWords += 'the deadline passed';
    this.kill();
  }

  send(request) {
    const id = `request-${++this.#requests}`;
    const body = Buffer.from(JSON.stringify({ id, ...request }));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(body.length);
    this.socket.write(Buffer.concat([length, body]));
    return id;
  }

  /** Sends anything but an execution; returns the reply. */
  async ask(request) {
    const id = this.send(request);
    for (;;) {
      const message = await this.receive();
      if (message.type === 'reply' && message.parent === id) return message;
    }
  }

  start(code, options = {}) {
    return this.send({ type: 'execute', code, ...options });
  }

  /** Reads until idle. */
  async finish(onMessage = () => {}) {
    const outcome = new Outcome();
    for (;;) {
      const message = await this.receive();
      outcome.push(message);
      onMessage(message);
      if (message.type === 'status' && message.state === 'idle') return outcome;
    }
  }

  run(code, options = {}) {
    this.start(code, options);
    return this.finish();
  }

  /** The text of the cell's value. */
  async value(code, options) {
    return (await this.run(code, options)).ok().value?.['text/plain'];
  }

  /** Reads until this text was printed; returns the messages read. */
  async waitForText(wanted) {
    const outcome = new Outcome();
    while (!outcome.text().includes(wanted)) outcome.push(await this.receive());
    return outcome;
  }

  interrupt() {
    process.kill(this.pid, 'SIGINT');
  }

  /** In KiB, from /proc. */
  memory(field = 'VmHWM') {
    const status = fs.readFileSync(`/proc/${this.pid}/status`, 'utf8');
    return Number(status.match(new RegExp(`^${field}:\\s+(\\d+)`, 'm'))[1]);
  }

  kill() {
    try {
      process.kill(-this.pid, 'SIGKILL');
    } catch (error) {
      if (error.code !== 'ESRCH') throw error;
    }
  }

  async close() {
    this.kill();
    await this.exited;
    this.socket.destroy();
  }
}

module.exports = { KernelClient, LAUNCHER };
