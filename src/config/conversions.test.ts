/** Tests what other folders get from the settings: tiers, thresholds of models, and rules for addresses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exactCountThresholds, tiersOf } from './conversions.ts'
import { DEFAULTS, type Settings } from './settings.ts'

const target = { targets: [{ upstream: 'openai', model: 'x' }] }
const models: Settings['models'] = {
  small: target,
  large: target,
  auto: {
    auto: [{ model: 'large', up_to_tokens: 500 }, { model: 'small', up_to_tokens: 200 }, { model: 'large' }],
  },
}

test('a tier with "all" models may use every public model', () => {
  const { user_free, user_max } = DEFAULTS.tiers
  const tiers = { ...DEFAULTS.tiers, user_free: { ...user_free, models: ['small'] }, user_max }
  const [free, , , max] = tiersOf({ ...DEFAULTS, models, tiers })
  assert.deepEqual([free?.name, max?.name], ['user_free', 'user_max'])
  assert.deepEqual([...(free?.models ?? [])], ['small'])
  assert.deepEqual([...(max?.models ?? [])], ['small', 'large', 'auto'])
})

test('tokens are counted exactly above the smallest size at which the choice of a model changes', () => {
  assert.deepEqual(
    [...exactCountThresholds({ ...DEFAULTS, models })],
    [
      ['small', Number.POSITIVE_INFINITY],
      ['large', Number.POSITIVE_INFINITY],
      ['auto', 200],
    ],
  )
})
