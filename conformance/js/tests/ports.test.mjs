// What is reached from outside: user ports and signed URLs.

import assert from 'node:assert/strict'

import { check, eventually, group } from '../harness.mjs'
import { fetchPlain, fetchPort } from '../web.mjs'

group('ports', (box) => {
  check('sandbox.host', 'a server inside answers outside', async () => {
    const { sandbox } = box
    assert.equal(sandbox.getHost(3000), `3000-${sandbox.sandboxId}.${sandbox.sandboxDomain}`)
    assert.doesNotMatch(sandbox.sandboxDomain, /e2b\./)
    await sandbox.files.write('/srv/site/index.html', 'served', { user: 'root' })
    const server = await sandbox.commands.run('python3 -m http.server 3000 --bind 127.0.0.1 --directory /srv/site', {
      background: true,
      timeoutMs: 0,
    })
    const answer = await eventually(async () => {
      const answer = await fetchPort(sandbox, 3000)
      return answer.status === 200 && answer
    }, 'an answer from port 3000', 15_000)
    assert.equal(answer.text, 'served')
    await server.kill()
  })

  check('errors.port', 'a closed port says so', async () => {
    const answer = await fetchPort(box.sandbox, 4567)
    assert.equal(answer.status, 502)
    assert.deepEqual(answer.json(), {
      sandboxId: box.sandbox.sandboxId,
      message: 'The sandbox is running but port is not open',
      port: 4567,
      code: 502,
    })
  })

  check('sandbox.urls', 'a signed URL downloads a file', async ({ place }) => {
    await box.sandbox.files.write(`${place}/a b.txt`, 'signed content')
    for (const options of [{}, { useSignatureExpiration: 60 }]) {
      const answer = await fetchPlain(await box.sandbox.downloadUrl(`${place}/a b.txt`, options))
      assert.deepEqual([answer.status, answer.text], [200, 'signed content'])
    }
  })

  check('sandbox.urls', 'a signed URL uploads a file for its user', async () => {
    const url = await box.sandbox.uploadUrl('up-js.txt', { user: 'root' })
    const boundary = 'conformance-boundary'
    const body = [
      `--${boundary}`,
      'Content-Disposition: form-data; name="file"; filename="up-js.txt"',
      '',
      'uploaded',
      `--${boundary}--`,
      '',
    ].join('\r\n')
    const headers = { 'Content-Type': `multipart/form-data; boundary=${boundary}` }
    const answer = await fetchPlain(url, { method: 'POST', headers, body })
    assert.deepEqual(answer.json(), [{ path: '/root/up-js.txt', name: 'up-js.txt', type: 'file' }])
    assert.equal(await box.sandbox.files.read('/root/up-js.txt', { user: 'root' }), 'uploaded')
  })

  check('errors.signature', 'an expired signature is refused', async ({ place }) => {
    await box.sandbox.files.write(`${place}/old.txt`, 'old')
    const url = await box.sandbox.downloadUrl(`${place}/old.txt`, { useSignatureExpiration: -10 })
    const answer = await fetchPlain(url)
    assert.equal(answer.status, 401)
    assert.deepEqual(answer.json(), { code: 401, message: 'signature is already expired' })
  })

  check('ingress.private', 'a private port is open to those who show its token', async ({ fresh }) => {
    const sandbox = await fresh({ network: { allowPublicTraffic: false } })
    await sandbox.commands.run('python3 -m http.server 8080 --bind 127.0.0.1', { background: true, timeoutMs: 0 })
    const headers = { 'e2b-traffic-access-token': sandbox.trafficAccessToken }
    await eventually(async () => (await fetchPort(sandbox, 8080, '/', { headers })).status === 200, 'an answer', 15_000)
    const refused = await fetchPort(sandbox, 8080)
    assert.equal(refused.status, 403)
    assert.match(refused.json().message, /Token header 'e2b-traffic-access-token' is missing/)
  })

  check('ingress.mask', 'a service sees the masked host', async ({ fresh }) => {
    const sandbox = await fresh({ network: { maskRequestHost: 'localhost:${PORT}' } })
    const program = `require('http').createServer((q, a) => a.end(q.headers.host)).listen(8080)`
    await sandbox.commands.run(`node -e "${program}"`, { background: true, timeoutMs: 0 })
    const answer = await eventually(async () => {
      const answer = await fetchPort(sandbox, 8080)
      return answer.status === 200 && answer
    }, 'an answer', 15_000)
    assert.equal(answer.text, 'localhost:8080')
  })
})
