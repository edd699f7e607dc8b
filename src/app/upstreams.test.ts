/**
 * Tests rates with one node and with three, for ten minutes of an injected clock, against simulated providers that enforce the
 * rates.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '../../test/fake-clock.ts'
import { type Enforced, ProviderRate } from '../../test/model-servers/provider-rate.ts'
import { Stop } from '../job/stop.ts'
import type { StoredRate } from '../store/node-store.ts'
import { type NodeAsk, ownBook, Rate, type Reservation } from '../upstreams/rate.ts'
import { NOTHING } from '../upstreams/rate-window.ts'
import { sharedRates } from './upstreams.ts'

const MINUTES = 10

function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state / 2_147_483_648
  }
}

function sharedBooks(clock: FakeClock, database = () => setImmediate()) {
  const rates = new Map<string, StoredRate>()
  const counts = { writes: 0, conflicts: 0 }
  const store = {
    shared: true,
    isKnownToAll: () => true,
    readRate: async (name: string) => {
      const found = rates.get(name) ?? null
      await database()
      return found
    },
    writeRate: async (name: string, { stateJson, version }: StoredRate) => {
      await database()
      const isWritten = (rates.get(name)?.version ?? 0) === version
      counts.writes += 1
      if (isWritten) rates.set(name, { stateJson, version: version + 1 })
      else counts.conflicts += 1
      return isWritten
    },
  }
  const of = (node: string) => sharedRates({ store, node, clock, warn: assert.fail })('a')
  return { of, counts }
}

interface Run {
  readonly kind: Enforced
  readonly nodes: number
  /** Returns how many tokens a request takes, and the estimate that it reserves. */
  readonly sizeOf: (random: number) => { readonly tokens: number; readonly estimate: number }
  readonly limits: { readonly requests: number; readonly tokens: number }
  readonly callMs: number
}

/** On each node, each account always has some waiting requests. */
async function run({ kind, nodes, sizeOf, limits, callMs }: Run) {
  const clock = new FakeClock()
  const random = numbers(nodes * 7 + kind.length)
  const provider = new ProviderRate(kind, limits, 17_000)
  const books = sharedBooks(clock)
  const byAccount = new Map<string, number>()
  let calls = 0
  for (let node = 0; node < nodes; node++) {
    const rate = new Rate(limits, nodes === 1 ? ownBook(clock) : books.of(`node-${node}`), clock)
    const start = (account: string): void => {
      const { tokens, estimate } = sizeOf(random())
      const sent = (reservation: Reservation | null): void => {
        assert.ok(reservation)
        calls += 1
        reservation.sent(clock.steadyMs())
        clock.after(20 + random() * 200, () => {
          const isAccepted = provider.take(tokens, clock.steadyMs())
          clock.after(random() * callMs, () => {
            if (isAccepted) {
              byAccount.set(account, (byAccount.get(account) ?? 0) + tokens)
              reservation.usedTokens(tokens)
            }
            reservation.end()
          })
        })
        start(account)
      }
      const got = rate.reserve({ account, weight: 1, tokens: estimate }, new Stop())
      void Promise.resolve(got).then(sent)
    }
    for (let n = 0; n < 3; n++) for (const account of ['acme', 'other']) start(account)
  }
  for (let step = 0; step < MINUTES * 600; step++) {
    clock.advance(100)
    for (let turn = 0; turn < (nodes === 1 ? 1 : 4); turn++) await setImmediate()
  }
  return { provider, byAccount, calls, ...books.counts }
}

const small = (random: number) => {
  const tokens = 200 + Math.floor(random * 1800)
  return { tokens, estimate: tokens }
}

describe('a rate over ten minutes', () => {
  const limits = { requests: 100_000, tokens: 60_000 }
  for (const kind of ['sliding', 'fixed', 'bucket'] as const) {
    for (const nodes of [1, 3]) {
      it(`is used, and not exceeded: ${nodes} nodes, a ${kind} minute`, async () => {
        const { provider, byAccount } = await run({
          kind,
          nodes,
          limits,
          sizeOf: small,
          callMs: 2000,
        })
        const [acme = 0, other = 0] = [byAccount.get('acme'), byAccount.get('other')]
        assert.deepEqual(provider.rejectedAtMs, [])
        assert.ok(provider.accepted.tokens >= 0.95 * limits.tokens * MINUTES)
        assert.ok(acme / other > 0.9 && other / acme > 0.9, `${acme} ${other}`)
      })
    }
  }
  it('counts a correction at the time of what it corrects, however slow the database is', async () => {
    const clock = new FakeClock()
    let databaseMs = 0
    const answered = () => new Promise<void>((resolve) => void clock.after(databaseMs, resolve))
    const book = sharedBooks(clock, answered).of('node')
    const limits = { requests: 1000, tokens: 2000 }
    const nothing = { used: [], held: NOTHING, needs: NOTHING, wants: NOTHING, left: null, blockMs: 0 }
    const exchange = async (ask: Partial<NodeAsk>) => {
      const granted = book.exchange(limits, { ...nothing, ...ask })
      for (let turn = 0; turn < 2; turn++) {
        await setImmediate()
        clock.advance(databaseMs)
      }
      return await granted
    }
    await exchange({ used: [{ agoMs: 0, requests: 1, tokens: 2000 }] })
    clock.advance(2000)
    databaseMs = 1500
    await exchange({ used: [{ agoMs: 2000, requests: 0, tokens: -1900 }] })
    databaseMs = 0
    clock.advance(60_500 + 200 - clock.steadyMs())
    const { tokens } = await exchange({
      needs: { requests: 1, tokens: 1 },
      wants: { requests: 1, tokens: 3000 },
    })
    assert.equal(tokens, 2000)
  })
})
