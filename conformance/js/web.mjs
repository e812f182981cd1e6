// Plain HTTP beside the SDK: user ports and signed URLs.

import http from 'node:http'
import https from 'node:https'

const sandboxUrl = process.env.E2B_SANDBOX_URL

/** One request; every status is an answer. */
export function fetchPlain(url, { method = 'GET', headers = {}, body } = {}) {
  const target = new URL(url)
  const { request } = target.protocol === 'https:' ? https : http
  return new Promise((resolve, reject) => {
    const sent = request(target, { method, headers }, async (response) => {
      const chunks = []
      for await (const chunk of response) chunks.push(chunk)
      const text = Buffer.concat(chunks).toString()
      resolve({ status: response.statusCode, headers: response.headers, text, json: () => JSON.parse(text) })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** A request to the control plane with the key of this run. */
export function fetchApi(method, path, body) {
  const base = process.env.E2B_API_URL ?? `https://api.${process.env.E2B_DOMAIN}`
  const headers = { 'X-API-Key': process.env.E2B_API_KEY, 'Content-Type': 'application/json' }
  return fetchPlain(base + path, { method, headers, body: JSON.stringify(body) })
}

/** A request to a port inside a sandbox, by name where there are names and by headers where not. */
export function fetchPort(sandbox, port, path = '/', options = {}) {
  if (!sandboxUrl) return fetchPlain(`https://${sandbox.getHost(port)}${path}`, options)
  return fetchPlain(sandboxUrl + path, { ...options, headers: { ...routing(sandbox, port), ...options.headers } })
}

const routing = (sandbox, port) => ({ 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': String(port) })
