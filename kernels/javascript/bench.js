'use strict';

// Measures what the kernel promises: `node bench.js`, from anywhere.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');

const { KernelClient } = require('./test/kernel_client');

const STARTS = 15;
const ROUNDS = 300;
const CELLS = {
  '1': '1',
  print: 'console.log(1)',
  declare: 'const x = 1; let y = [x]; class Z {}; y',
  await: 'await null',
  error: 'null.x',
};

async function timed(rounds, action) {
  const samples = [];
  for (let round = 0; round < rounds; round++) {
    const start = performance.now();
    await action();
    samples.push(performance.now() - start);
  }
  samples.sort((a, b) => a - b);
  return `median ${samples[rounds >> 1].toFixed(2)} ms, best ${samples[0].toFixed(2)} ms`;
}

function memory(pid) {
  const rollup = fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const field = (name) => Number(rollup.match(new RegExp(`^${name}:\\s+(\\d+)`, 'm'))[1]) / 1024;
  return `proportional ${field('Pss').toFixed(1)} MiB, resident ${field('Rss').toFixed(1)} MiB`;
}

async function benchLanguage(language) {
  console.log(`\n${language}`);
  const kernels = [];
  const start = async () => kernels.push(await KernelClient.start({ language }));
  console.log('start to hello:     ', await timed(STARTS, start));
  for (const kernel of kernels.splice(0)) await kernel.close();
  const first = async () => {
    const kernel = await KernelClient.start({ language });
    kernels.push(kernel);
    await kernel.run('1');
  };
  console.log('start to first value:', await timed(5, first));
  for (const other of kernels.splice(1)) await other.close();
  const [kernel] = kernels;
  console.log('after a cell:       ', memory(kernel.pid));
  for (const [name, code] of Object.entries(CELLS)) {
    for (let round = 0; round < 50; round++) await kernel.run(code);
    console.log(`cell ${name.padEnd(15)}`, await timed(ROUNDS, () => kernel.run(code)));
  }
  const mebibytes = 'for (let n = 0; n < 100; n++) process.stdout.write("x".repeat(1 << 20))';
  console.log('100 MiB of output:  ', await timed(3, () => kernel.run(mebibytes)));
  const interrupt = async () => {
    kernel.start('console.log("go"); for (;;);');
    await kernel.waitForText('go');
    kernel.interrupt();
    await kernel.finish();
  };
  console.log('interrupt of a loop:', await timed(20, interrupt));
  console.log('at the end:         ', memory(kernel.pid));
  await kernel.close();
}

async function main() {
  console.log(`node ${process.versions.node}, ${os.cpus().length} processors, load ${os.loadavg()[0].toFixed(1)}`);
  console.log('node alone:', await timed(STARTS, () => execFileSync(process.execPath, ['-e', '0'])));
  for (const language of ['javascript', 'typescript']) await benchLanguage(language);
}

main();
