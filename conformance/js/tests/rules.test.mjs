// Rules for requests: headers with secrets and identity tokens, given at create, shown, replaced.

import assert from 'node:assert/strict'

import { check, group } from '../harness.mjs'
import { Sandbox, e2b } from '../sdk.mjs'

const BEARER = 'Bearer ${e2b.secrets.api-key}'

group('rules', () => {
  check('network.headers', 'rules are shown with placeholders and replaced whole', { newOnly: true }, async () => {
    const rule = { transform: { headers: { Authorization: BEARER } } }
    const sandbox = await Sandbox.create('base', { network: { rules: { 'API.Example.com': [rule], '*.example.org': [] } } })
    try {
      const rules = async () => (await sandbox.getInfo()).network?.rules
      assert.deepEqual(await rules(), { 'api.example.com': [rule], '*.example.org': [] })
      await sandbox.updateNetwork({ rules: { 'a.test': [rule] } })
      assert.deepEqual(await rules(), { 'a.test': [rule] })
      await sandbox.updateNetwork({})
      assert.equal(await rules(), undefined)
      await assert.rejects(sandbox.updateNetwork({ rules: { '*': [] } }), /not a valid domain name/)
    } finally {
      await sandbox.kill()
    }
  })

  check('identity.tokens', 'tokens are named in rules and unknown ones are refused', { newOnly: true }, async () => {
    const iam = { tokens: { Aws: { audience: 'sts.test', tokenType: 'JWT-SVID' } } }
    const transform = ({ iam }) => ({ headers: { 'x-token': iam.tokens.Aws } })
    const sandbox = await Sandbox.create('base', { iam, network: { rules: { 'sts.test': [{ transform }] } } })
    try {
      const rules = (await sandbox.getInfo()).network.rules
      const headers = { 'x-token': '${e2b.identity.tokens.Aws}' }
      assert.deepEqual(rules, { 'sts.test': [{ transform: { headers } }] })
      const unknown = { 'sts.test': [{ transform: { headers: { 'x-token': '${e2b.identity.tokens.gcp}' } } }] }
      await assert.rejects(sandbox.updateNetwork({ rules: unknown }), /"gcp"/)
    } finally {
      await sandbox.kill()
    }
  })
}, { withSandbox: false })
