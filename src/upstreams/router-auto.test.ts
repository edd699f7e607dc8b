/** `gpt-auto`: the candidate that is large enough and allowed, and the next where it fails. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FakeClock } from '../../test/fake-clock.ts'
import { reply } from '../../test/model-server.ts'
import { failing, never, question, scene } from '../../test/support/router-scene.ts'
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
      const { router } = await scene(t, { models })
      const routed = await router.ask(
        question('gpt-auto', { inputTokens, allowed: (model) => allowed.includes(model) }),
        never,
      )
      assert.equal(routed.target, expected)
      assert.equal(routed.reply.kind, expected === null ? 'trouble' : 'answer')
    })
  }

  it('falls to the next candidate where one fails in a way worth retrying', async (t) => {
    const { router } = await scene(t, { models, a: failing })
    const routed = await router.ask(question('gpt-auto'), never)
    assert.deepEqual(
      routed.calls.map(({ target }) => target),
      ['a/small', 'a/middle', 'b/large'],
    )
    assert.equal(routed.target, 'b/large')
  })

  it('and not where it fails otherwise', async (t) => {
    const { router } = await scene(t, { models, a: () => reply.status(400) })
    assert.equal((await router.ask(question('gpt-auto'), never)).calls.length, 1)
  })

  it('a candidate without targets is a mistake found at the start', async () => {
    const wrong = { auto: { auto: [{ model: 'nowhere' }] } }
    const make = () =>
      new ModelRouter({ upstreams: new Map(), models: wrong, clock: new FakeClock(), random: () => 0 })
    assert.throws(make, /nowhere/)
    const models = { m: { targets: [{ upstream: 'none', model: 'm' }] } }
    const other = () =>
      new ModelRouter({ upstreams: new Map(), models, clock: new FakeClock(), random: () => 0 })
    assert.throws(other, /no upstream none/)
  })
})
