'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { MessageChannel, Worker } = require('node:worker_threads');

const { toJson } = require('./encoding');
const { installGlobals } = require('./modules');
const { Critical } = require('./critical');
const { Kernel } = require('./kernel');
const { Outlet } = require('./outlet');
const { WORDS, allocate, views } = require('./shared_words');
const { flushBeforeOthers, replaceStreams } = require('./streams');
const { Wire, framed } = require('./wire');
const { name, version } = require('../package.json');

const PROTOCOL_VERSION = 1;

/** How long the first cell waits for the thread that hears interrupts. */
const LISTENING_PATIENCE = 5000;

function main() {
  const options = parseArgs({
    options: {
      'socket-fd': { type: 'string' },
      pipes: { type: 'string' },
      language: { type: 'string', default: 'javascript' },
    },
  }).values;
  const socketDescriptor = Number(options['socket-fd']);
  // Until somebody listens, an interrupt is not a death.
  process.on('SIGINT', () => {});
  const pipeDescriptors = takeDescriptors(options.pipes);
  // The socket is not shared with the carrier yet, and still blocks.
  fs.writeSync(socketDescriptor, hello(options.language));
  serve({ language: options.language, socketDescriptor, pipeDescriptors });
}

/** Makes named pipes standard output and error; returns the ends from which they are read. */
function takeDescriptors(folder) {
  const { O_NONBLOCK, O_RDWR, O_WRONLY } = fs.constants;
  const readers = [1, 2].map((descriptor) => {
    const pipe = path.join(folder, String(descriptor));
    // Also open for writing, so that it never comes to an end.
    const reader = fs.openSync(pipe, O_RDWR | O_NONBLOCK);
    // What is opened gets the lowest descriptor that is free, and no other thread opens anything yet.
    fs.closeSync(descriptor);
    const opened = fs.openSync(pipe, O_WRONLY);
    if (opened !== descriptor) throw new Error(`descriptor ${descriptor} became ${opened}`);
    return reader;
  });
  fs.rmSync(folder, { recursive: true });
  return readers;
}

function hello(language) {
  const fields = {
    type: 'hello',
    protocol: PROTOCOL_VERSION,
    kernel: `${name} ${version}`,
    pid: process.pid,
    node: process.versions.node,
    language,
  };
  return framed([toJson(fields)]);
}

function serve({ language, socketDescriptor, pipeDescriptors }) {
  const memory = allocate();
  const { words, ring } = views(memory);
  const channel = () => {
    const { port1, port2 } = new MessageChannel();
    return [port1, port2];
  };
  const [bells, theirBells] = channel();
  const [parcels, theirParcels] = channel();
  const [requests, theirRequests] = channel();
  const [heard, theirSignals] = channel();
  const carrier = new Worker(path.join(__dirname, 'carrier.js'), {
    workerData: {
      memory,
      socketDescriptor,
      pipeDescriptors,
      bells: theirBells,
      parcels: theirParcels,
      requests: theirRequests,
      signals: heard,
    },
    transferList: [theirBells, theirParcels, theirRequests, heard],
    trackUnmanagedFds: false,
  });
  const listener = new Worker(path.join(__dirname, 'signal_listener.js'), {
    workerData: { memory, signals: theirSignals },
    transferList: [theirSignals],
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
  });
  for (const thread of [carrier, listener]) {
    thread.on('error', (error) => {
      throw error;
    });
  }
  const wire = new Wire({ words, ring }, bells, parcels);
  const outlet = new Outlet(wire);
  replaceStreams(outlet);
  flushBeforeOthers(() => wire.flush());
  installGlobals();
  process.argv.length = 1;
  const whenListening = () => Atomics.wait(words, WORDS.listening, 0, LISTENING_PATIENCE);
  new Kernel({ language, outlet, critical: new Critical(words), carrier, requests, whenListening }).start();
}

main();
