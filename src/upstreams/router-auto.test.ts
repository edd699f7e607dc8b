/** `gpt-auto`: the first candidate that the tier allows and that fits the input answers; if it fails, the next one does. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { reply } from '../../test/model-server.ts'
import { failing, modelRequest, never, startRouter } from '../../test/support/router-setup.ts'
import type { ModelSettings } from '../config/settings.ts'
import { ModelRouter } from './router.ts'

describe('gpt-auto', () => {
  const models: Record<string, ModelSettings> = {
    small: { targets: [{ upstream: 'a', model: 'small' }] },
    middle: { targets: [{ upstream: 'a', model: 'middle' }] },
    large: { targets: [{ upstream: 'b', model: 'large' }] },
    'gpt-auto': {
      auto: [
        { model: 'small', up_to_tokens: 100 },
        { model: 'middle', up_to_tokens: 1000 },
        { model: 'large' },
      ],
    },
  }
  const cases: [number, string[], string | null][] = [
    [100, ['small', 'middle', 'large'], 'a/small'],
    [101, ['small', 'middle', 'large'], 'a/middle'],
    [1001, ['small', 'middle', 'large'], 'b/large'],
    [50, ['middle', 'large'], 'a/middle'],
    [5000, ['small', 'middle'], 'a/middle'],
    [5000, ['small'], 'a/small'],
    [50, [], null],
  ]
  for (const [inputTokens, allowed, expected] of cases) {
    it(`${inputTokens} tokens, allowed ${allowed.join(', ') || 'nothing'}: ${expected}`, async (t) => {
      const { router } = await startRouter(t, {
        models,
        tiers: [{ name: 'some', models: new Set(allowed), weight: 1 }],
      })
      const routed = await router.ask(modelRequest('gpt-auto', { inputTokens, tier: 'some' }), never)
      assert.equal(routed.target, expected)
      assert.equal(routed.reply.kind, expected === null ? 'error' : 'answer')
    })
  }

  it('tries the next candidate after a retryable error', async (t) => {
    const { router } = await startRouter(t, { models, a: failing })
    const routed = await router.ask(modelRequest('gpt-auto'), never)
    assert.deepEqual(
      routed.calls.map(({ target }) => target),
      ['a/small', 'a/middle', 'b/large'],
    )
    assert.equal(routed.target, 'b/large')
  })

  it('does not try the next candidate after any other error', async (t) => {
    const { router } = await startRouter(t, { models, a: () => reply.status(400) })
    assert.equal((await router.ask(modelRequest('gpt-auto'), never)).calls.length, 1)
  })

  it('a candidate without targets is rejected at startup', async () => {
    const wrong = { auto: { auto: [{ model: 'nowhere' }] } }
    const make = () =>
      new ModelRouter({
        upstreams: new Map(),
        models: wrong,
        tiers: [],
        clock: new FakeClock(),
        random: () => 0,
      })
    assert.throws(make, /nowhere/)
    const models = { m: { targets: [{ upstream: 'none', model: 'm' }] } }
    const other = () =>
      new ModelRouter({ upstreams: new Map(), models, tiers: [], clock: new FakeClock(), random: () => 0 })
    assert.throws(other, /no upstream none/)
  })
})
