// Plain HTTP beside the SDK: user ports and signed URLs.

import http from 'node:http'
import https from 'node:https'

const sandboxUrl = process.env.E2B_SANDBOX_URL
// Where names below the domain are found when the host's resolver does not know them.
const address = process.env.CONFORMANCE_ADDRESS

/** One request; every status is an answer. */
export function fetchPlain(url, { method = 'GET', headers = {}, body } = {}) {
  const target = new URL(url)
  const { request } = target.protocol === 'https:' ? https : http
  const found = (_, options, done) =>
    options.all ? done(null, [{ address, family: 4 }]) : done(null, address, 4)
  const lookup = address && target.protocol === 'https:' ? { lookup: found } : {}
  return new Promise((resolve, reject) => {
    const sent = request(target, { method, headers, ...lookup }, async (response) => {
      const chunks = []
      for await (const chunk of response) chunks.push(chunk)
      const text = Buffer.concat(chunks).toString()
      resolve({ status: response.statusCode, headers: response.headers, text, json: () => JSON.parse(text) })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** A request to a port inside a sandbox, by name where there are names and by headers where not. */
export function fetchPort(sandbox, port, path = '/', options = {}) {
  if (!sandboxUrl) return fetchPlain(`https://${sandbox.getHost(port)}${path}`, options)
  return fetchPlain(sandboxUrl + path, { ...options, headers: { ...routing(sandbox, port), ...options.headers } })
}

/** A request to a signed URL. Behind one shared address the URL does not say which sandbox it means. */
export function fetchSigned(sandbox, url, options = {}) {
  const headers = { ...(sandboxUrl ? routing(sandbox, 49983) : {}), ...options.headers }
  return fetchPlain(url, { ...options, headers })
}

const routing = (sandbox, port) => ({ 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': String(port) })
