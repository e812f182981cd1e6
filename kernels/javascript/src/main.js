'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { getHeapStatistics } = require('node:v8');
const { MessageChannel, Worker } = require('node:worker_threads');

const { WORDS, allocate, views } = require('./shared_words');

const PROTOCOL_VERSION = 1;

/** Exit status when one of the kernel's own threads has failed. */
const THREAD_LOST = 70;

/** How long the first cell waits for the thread that hears interrupts. */
const LISTENING_PATIENCE = 5000;

function main() {
  const options = parseArgs({
    options: {
      'socket-fd': { type: 'string' },
      'pipe-fd': { type: 'string', multiple: true },
      language: { type: 'string', default: 'javascript' },
    },
  }).values;
  // Until somebody listens, an interrupt is not a death.
  process.on('SIGINT', () => {});
  const socketDescriptor = Number(options['socket-fd']);
  // The threads start while the rest is loaded.
  const threads = startThreads({ socketDescriptor, pipeDescriptors: takeDescriptors(options['pipe-fd'].map(Number)) });
  serve(options.language, threads, socketDescriptor);
}

/** Makes inherited pipes standard output and error; returns the ends from which they are read. */
function takeDescriptors(pipes) {
  const { O_NONBLOCK, O_RDWR, O_WRONLY } = fs.constants;
  return pipes.map((inherited, index) => {
    // Also open for writing, so that it never comes to an end.
    const reader = fs.openSync(`/proc/self/fd/${inherited}`, O_RDWR | O_NONBLOCK);
    fs.closeSync(inherited);
    // What is opened gets the lowest descriptor that is free, and no other thread opens anything yet.
    const standard = index + 1;
    fs.closeSync(standard);
    const opened = fs.openSync(`/proc/self/fd/${reader}`, O_WRONLY);
    if (opened !== standard) throw new Error(`descriptor ${standard} became ${opened}`);
    return reader;
  });
}

/** Starts the carrier and the signal listener; returns this thread's ends of what connects them. */
function startThreads({ socketDescriptor, pipeDescriptors }) {
  const memory = allocate();
  const channels = Object.fromEntries(
    ['bells', 'parcels', 'requests', 'answers', 'signals'].map((name) => [name, new MessageChannel()]),
  );
  const theirs = Object.fromEntries(Object.entries(channels).map(([name, channel]) => [name, channel.port2]));
  const { bells, parcels, requests, answers, signals } = channels;
  const start = path.join(__dirname, 'start.js');
  const carrier = new Worker(start, {
    workerData: { part: 'carrier', memory, socketDescriptor, pipeDescriptors, ...theirs },
    transferList: Object.values(theirs),
    trackUnmanagedFds: false,
  });
  const listener = new Worker(start, {
    workerData: { part: 'signal_listener', memory, signals: signals.port1 },
    transferList: [signals.port1],
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 },
  });
  const shared = views(memory);
  for (const thread of [carrier, listener]) {
    thread.on('error', () => {
      // Nobody is left to tell anybody; in particular nobody empties the ring.
      Atomics.store(shared.words, WORDS.broken, 1);
      process.exit(THREAD_LOST);
    });
  }
  const ours = { bells: bells.port1, parcels: parcels.port1, requests: requests.port1, answers: answers.port1 };
  return { carrier, shared, ...ours };
}

function serve(language, { carrier, shared, bells, parcels, requests, answers }, socketDescriptor) {
  const { installGlobals } = require('./modules');
  const { Critical } = require('./critical');
  const { Input } = require('./input');
  const { Kernel } = require('./kernel');
  const { Outlet } = require('./outlet');
  const { flushBeforeOthers, replaceStreams } = require('./streams');
  const { Wire, framed } = require('./wire');
  const wire = new Wire(shared, bells, parcels);
  const outlet = new Outlet(wire);
  replaceStreams(outlet);
  flushBeforeOthers(() => wire.flush());
  installGlobals();
  process.argv.length = 1;
  const { words } = shared;
  const whenListening = () => Atomics.wait(words, WORDS.listening, 0, LISTENING_PATIENCE);
  const input = new Input({ outlet, words, answers });
  const critical = new Critical(words);
  new Kernel({ language, words, outlet, critical, carrier, requests, input, whenListening }).start();
  // Past the carrier, which says nothing before there is something to answer.
  fs.writeSync(socketDescriptor, framed([hello(language)]));
}

function hello(language) {
  const { name, version } = require('../package.json');
  const { toJson } = require('./encoding');
  const { pid, versions } = process;
  return toJson({
    type: 'hello',
    protocol: PROTOCOL_VERSION,
    kernel: `${name} ${version}`,
    pid,
    node: versions.node,
    language,
    // V8 ends the process when it reaches this, and can tell nobody.
    heap_limit: getHeapStatistics().heap_size_limit,
  });
}

main();
