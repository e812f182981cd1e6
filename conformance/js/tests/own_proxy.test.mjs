// A SOCKS5 proxy of one's own: given at create and by update, shown without its password, refused if it is none.

import assert from 'node:assert/strict'

import { check, group } from '../harness.mjs'
import { Sandbox } from '../sdk.mjs'

const shown = { address: '192.0.2.7:1080', username: 'somebody' }
const egressProxy = { ...shown, password: 'hunter2-of-the-proxy' }

group('a proxy of one’s own', () => {
  check('network.proxy', 'a proxy is shown without its password and replaced whole', { newOnly: true }, async () => {
    const sandbox = await Sandbox.create('base', { network: { egressProxy } })
    try {
      const given = async () => (await sandbox.getInfo()).network?.egressProxy
      assert.deepEqual(await given(), shown)
      await sandbox.updateNetwork({})
      assert.equal(await given(), undefined)
      await sandbox.updateNetwork({ egressProxy })
      assert.deepEqual(await given(), shown)
      const wrong = { ...egressProxy, address: '10.0.0.1:1080' }
      await assert.rejects(sandbox.updateNetwork({ egressProxy: wrong }), /Invalid egress proxy config: /)
    } finally {
      await sandbox.kill()
    }
  })
}, { withSandbox: false })
