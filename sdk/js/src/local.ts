// A server on this host: found as `skep run` finds it, or started for this process.

import type { ChildProcess } from 'node:child_process'

import { LocalServerError } from './errors.js'

const HEALTHY = 'Health check successful'
const HEALTH_MS = 3_000
const START_MS = 60_000
const STOP_MS = 30_000
const FIRST_TEMPLATE = 'code-interpreter-slim'
const LISTENING = '0A'

/** A server on this host. */
export class LocalServer {
  #apiKey: string
  #process?: ChildProcess
  #directory?: string

  constructor(
    readonly url: string,
    apiKey: string,
    own?: { process: ChildProcess; directory: string },
  ) {
    this.#apiKey = apiKey
    this.#process = own?.process
    this.#directory = own?.directory
  }

  /** Whether it was started for this process, and ends with it. */
  get isOwn(): boolean {
    return this.#process !== undefined
  }

  /** The options that lead `Sandbox.create` and `Sandbox.connect` to it. */
  connection(): { apiUrl: string; sandboxUrl: string; apiKey: string } {
    return { apiUrl: this.url, sandboxUrl: this.url, apiKey: this.#apiKey }
  }

  /** Ends a server that was started for this process, with its sandboxes. Another one is left alone. */
  async stop(): Promise<void> {
    const [child, directory] = [this.#process, this.#directory]
    if (!child || !directory) return
    this.#process = this.#directory = undefined
    started = undefined
    const ended = new Promise((resolve) => child.once('exit', resolve))
    // It ends when its standard input does.
    child.stdin?.end()
    const timer = setTimeout(() => killGroup(child), STOP_MS)
    if (child.exitCode === null && child.signalCode === null) await ended
    clearTimeout(timer)
    const { rm } = await import('node:fs/promises')
    await rm(directory, { recursive: true, force: true })
  }
}

let started: Promise<LocalServer> | undefined

/**
 * The server that `SKEP_SERVER` or `E2B_API_URL` names, or the one of this host, or one that is started.
 *
 * The key is `E2B_API_KEY`, or that of this host, which only its operator can read, and which only a server of the same
 * user is sent. A server that is started needs root and the executable `skep`; it is gone, with its sandboxes and all
 * its data, when this process is. It has the templates that were built on this host; `template` is the one that is
 * wanted, without which a small one with an interpreter is built if none is there.
 */
export async function localServer(template?: string): Promise<LocalServer> {
  const named = process.env.SKEP_SERVER || process.env.E2B_API_URL
  if (named) {
    const url = named.includes('://') ? named : `http://${named}`
    return new LocalServer(url, await keyFor(url))
  }
  const url = `http://${reachable(process.env.SKEP_LISTEN || '127.0.0.1:3000')}`
  if (await isHealthy(url)) return new LocalServer(url, await keyFor(url))
  started ??= start(url, template).catch((error) => {
    started = undefined
    throw error
  })
  return started
}

async function isHealthy(url: string): Promise<boolean> {
  try {
    const answer = await fetch(`${url}/health`, { signal: AbortSignal.timeout(HEALTH_MS) })
    return (await answer.text()) === HEALTHY
  } catch {
    return false
  }
}

function reachable(listen: string): string {
  return listen.replace(/^0\.0\.0\.0:/, '127.0.0.1:').replace(/^\[::\]:/, '[::1]:')
}

async function keyFor(url: string): Promise<string> {
  if (process.env.E2B_API_KEY) return process.env.E2B_API_KEY
  const { readFile, stat } = await import('node:fs/promises')
  const path = `${process.env.SKEP_DATA_DIR || '/var/lib/skep'}/local-key`
  let key: string
  let owner: number
  try {
    owner = (await stat(path)).uid
    key = (await readFile(path, 'utf8')).trim()
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new LocalServerError(
      `a server runs at ${url}, and the key of this host cannot be read (${why}): set E2B_API_KEY, or run this as its operator`,
    )
  }
  const users = await listeners(url)
  const other = users.find((user) => user !== owner)
  if (other !== undefined) {
    throw new LocalServerError(
      `user ${other} listens at ${url}, and not user ${owner}, whom the key of this host belongs to: set E2B_API_KEY`,
    )
  }
  if (users.length === 0) throw new LocalServerError(`${url} is not on this host, and is not sent its key: set E2B_API_KEY`)
  return key
}

/** The users whose sockets take connections to an address of this host. */
async function listeners(url: string): Promise<number[]> {
  const { readFile } = await import('node:fs/promises')
  const { hostname, port, protocol } = new URL(url)
  const number = Number(port) || (protocol === 'https:' ? 443 : 80)
  const bare = hostname.replace(/^\[|\]$/g, '')
  const wanted = bare.endsWith('localhost') ? ['127.0.0.1', '::1'] : [bare]
  const loopback = wanted.some((address) => address.startsWith('127.') || address === '::1')
  const users: number[] = []
  for (const name of ['tcp', 'tcp6']) {
    // A kernel without the protocol, or another system, has no such list.
    const text = await readFile(`/proc/self/net/${name}`, 'utf8').catch(() => '')
    for (const line of text.split('\n').slice(1)) {
      const fields = line.trim().split(/\s+/)
      const [digits, place] = (fields[1] ?? '').split(':')
      if (!digits || !place || fields[3] !== LISTENING || parseInt(place, 16) !== number) continue
      const address = await addressOf(digits)
      if (wanted.includes(address) || (loopback && ['0.0.0.0', '::'].includes(address))) users.push(Number(fields[7]))
    }
  }
  return users
}

/** An address as the kernel writes it: words of four bytes, each in this host's order. */
async function addressOf(digits: string): Promise<string> {
  const { endianness } = await import('node:os')
  const words = digits.match(/.{8}/g) ?? []
  const bytes = words.flatMap((word) => {
    const four = [...Buffer.from(word, 'hex')]
    return endianness() === 'LE' ? four.reverse() : four
  })
  if (bytes.length === 4) return bytes.join('.')
  const isMapped = bytes.slice(0, 12).every((byte, index) => byte === (index < 10 ? 0 : 255))
  if (isMapped) return bytes.slice(12).join('.')
  const groups = Array.from({ length: 8 }, (_, index) => ((bytes[2 * index] ?? 0) * 256 + (bytes[2 * index + 1] ?? 0)).toString(16))
  // As URLs write it.
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1)
}

async function start(url: string, template: string | undefined): Promise<LocalServer> {
  const { spawn } = await import('node:child_process')
  const { mkdtemp, rm } = await import('node:fs/promises')
  const { tmpdir } = await import('node:os')
  if (process.geteuid?.() !== 0) {
    throw new LocalServerError(
      `no server runs at ${url}, and starting one needs root: \`sudo skep up\` starts one, or run this with \`sudo\``,
    )
  }
  const executable = 'skep'
  const directory = await mkdtemp(`${tmpdir()}/skep-run-`)
  try {
    if (template === undefined) await build(executable, directory)
    const options = ['serve', '--json', '--private', '--listen', '127.0.0.1:0', '--data-dir', directory]
    // The server ends when its standard input does, and wants a pipe for that; Node's own are sockets.
    const child = spawn('sh', ['-c', 'cat | "$@"', 'sh', executable, ...options], {
      stdio: ['pipe', 'pipe', 'pipe'],
      // Signals of the terminal do not reach it.
      detached: true,
      env: { ...process.env, SKEP_LOG: 'warn' },
    })
    const ready = await readyLine(child)
    // What it says from then on is nobody's, and neither it nor its pipes keep this process alive.
    child.stderr?.resume()
    child.unref()
    for (const pipe of [child.stdin, child.stdout, child.stderr]) (pipe as { unref?: () => void } | null)?.unref?.()
    return new LocalServer(ready.apiUrl, ready.apiKey, { process: child, directory })
  } catch (error) {
    await rm(directory, { recursive: true, force: true })
    throw error
  }
}

/** Kills a server that does not end by itself, with the shell that it was started by. */
function killGroup(child: ChildProcess): void {
  // It leads a process group, as it was detached.
  if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL')
}

/** What a server prints when it serves. */
function readyLine(child: ChildProcess): Promise<{ apiUrl: string; apiKey: string }> {
  return new Promise((resolve, reject) => {
    let out = ''
    let log = ''
    const timer = setTimeout(() => killGroup(child), START_MS)
    child.stderr?.on('data', (piece) => (log = (log + piece).slice(-2_000)))
    child.stdout?.on('data', (piece) => {
      out += piece
      if (!out.includes('\n')) return
      clearTimeout(timer)
      try {
        resolve(JSON.parse(out))
      } catch (error) {
        killGroup(child)
        reject(error)
      }
    })
    child.once('error', (error) => {
      clearTimeout(timer)
      reject(new LocalServerError(`\`skep\` cannot be run (${error.message}): install it, or set SKEP_SERVER to a server`))
    })
    child.once('close', () => {
      clearTimeout(timer)
      reject(new LocalServerError(`the server did not become ready; is \`skep\` installed?\n${log.split('\n').slice(-5).join('\n')}`))
    })
  })
}

async function build(executable: string, directory: string): Promise<void> {
  const { execFile } = await import('node:child_process')
  const { promisify } = await import('node:util')
  const options = ['template', 'build', FIRST_TEMPLATE, '--data-dir', directory]
  await promisify(execFile)(executable, options).catch((error) => {
    throw new LocalServerError(`the template ${FIRST_TEMPLATE} cannot be built: ${error.stderr || error.message}`)
  })
}
