// The routes of the API that only Skep has, and how a server is known to be Skep.

import {
  AuthenticationError,
  type ConnectionConfig,
  NotFoundError,
  RateLimitError,
  SandboxError,
  TimeoutError,
} from '@e2b/code-interpreter'

import { NotSkepError } from './errors.js'

// Servers that have shown that they are Skep. What one was not is asked again: another may be there by then.
const known = new Set<string>()

const signal = (milliseconds: number) => (milliseconds > 0 ? AbortSignal.timeout(milliseconds) : undefined)

/** Fetches, and says of a request that took too long what allows it more. */
export async function fetched(url: string, milliseconds: number, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, { signal: signal(milliseconds), ...init })
  } catch (error) {
    if (error instanceof Error && ['AbortError', 'TimeoutError'].includes(error.name)) {
      throw new TimeoutError("Request timed out: the 'requestTimeoutMs' option allows it more")
    }
    throw error
  }
}

/** Throws `NotSkepError` unless the server of this configuration is Skep. */
export async function requireSkep(config: ConnectionConfig, wanted: string): Promise<void> {
  if (known.has(config.apiUrl)) return
  const init = { headers: { Accept: 'application/json' } }
  const answer = await fetched(`${config.apiUrl}/health`, config.requestTimeoutMs, init)
  // E2B's is the same sentence whatever is asked for.
  const health = await answer.json().catch(() => undefined)
  if (!answer.ok || !['ok', 'degraded'].includes(health?.status)) throw new NotSkepError(wanted, config.apiUrl)
  known.add(config.apiUrl)
}

/** A request to a route that only Skep has. */
export async function call(
  config: ConnectionConfig,
  wanted: string,
  method: string,
  path: string,
  body?: unknown,
): Promise<Response> {
  await requireSkep(config, wanted)
  const headers: Record<string, string> = { ...config.headers, 'X-API-Key': config.apiKey ?? '' }
  if (body !== undefined) headers['Content-Type'] = 'application/json'
  const init = { method, headers, body: body === undefined ? undefined : JSON.stringify(body) }
  const answer = await fetched(config.apiUrl + path, config.requestTimeoutMs, init)
  if (answer.ok) return answer
  const text = await answer.text()
  const message = `${answer.status}: ${messageIn(text) ?? text}`
  if (answer.status === 401) throw new AuthenticationError(message)
  if (answer.status === 404) throw new NotFoundError(message)
  if (answer.status === 429) throw new RateLimitError(message)
  throw new SandboxError(message)
}

function messageIn(text: string): string | undefined {
  try {
    return JSON.parse(text).message
  } catch {
    return undefined
  }
}
