/** Creates pending callbacks of a chosen size, spread evenly over the hosts. Every side of a comparison gets the same ones. */
import { randomBytes } from 'node:crypto'
import { callbackRequest, type SignableBody } from '../../src/callbacks/callback-sender.ts'
import { systemClock } from '../../src/clock.ts'
import { jobIdMaker } from '../../src/job/job-id.ts'
import { makeSecret } from '../../src/net/signing-secrets.ts'
import { words } from './bodies.ts'
import { HOSTS, urlOf } from './receiver-hosts.ts'

export const ACCOUNT = 'bench'

export interface OwedOptions {
  readonly callbacks: number
  readonly bytes: number
  readonly receiversPort: number
}

export function owedCallbacks({ callbacks, bytes, receiversPort }: OwedOptions): SignableBody[] {
  const nowMs = Date.now()
  const makeId = jobIdMaker(systemClock, (count) => randomBytes(count).toString('hex'))
  const secrets = { current: makeSecret(), previous: null }
  const owed = (index: number, text: string): SignableBody => ({
    callback: {
      url: urlOf(index % HOSTS, receiversPort),
      headers: {},
      payloadJson: `{"order":${10_000_000 + index}}`,
    },
    view: {
      id: makeId(),
      status: 'completed',
      createdAtMs: nowMs,
      contentJson: JSON.stringify(text),
      errorJson: null,
      usageJson: null,
    },
    endedAtMs: nowMs,
    secrets,
  })
  const answer = words(bytes - callbackRequest(owed(0, ''), nowMs).body.length)
  return Array.from({ length: callbacks }, (_, index) => owed(index, answer))
}
