/** Tests what calls cost, to the millionth, and what jobs may cost at most. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { amountText, MAX_COST, microsOf } from './amount.ts'
import { costOf, Prices, USUAL_OUTPUT_TOKENS } from './cost.ts'

const PRICE = { input: 2.5, cached_input: 0.25, output: 10 }

test('a call costs its tokens at the prices, in whole millionths', () => {
  const cases = [
    [PRICE, { input: 0, output: 0 }, 0],
    [PRICE, { input: 1_000_000, output: 0 }, 2_500_000],
    [PRICE, { input: 100, output: 7 }, 320],
    [PRICE, { input: 100, cached: 60, output: 7 }, 185],
    // More cached tokens than input tokens cost as much as if all input tokens were cached.
    [PRICE, { input: 100, cached: 1000, output: 0 }, 25],
    [{ input: 2.5, output: 10 }, { input: 100, cached: 60, output: 7 }, 320],
    [{ input: 0, output: 0 }, { input: 1e9, output: 1e9 }, 0],
    // 0.1 + 0.2 of a millionth are exactly 0.3. Half a millionth is rounded up.
    [{ input: 0.1, output: 0.2 }, { input: 1, output: 1 }, 0],
    [{ input: 0.1, output: 0.2 }, { input: 3, output: 1 }, 1],
    [{ input: 0.075, output: 0.3 }, { input: 2, output: 1 }, 0],
    [{ input: 0.075, output: 0.3 }, { input: 6, output: 0 }, 0],
    [{ input: 0.075, output: 0.3 }, { input: 7, output: 0 }, 1],
    [{ input: 0.000000001, output: 0 }, { input: 500_000_000, output: 0 }, 1],
    [{ input: 0.000000001, output: 0 }, { input: 499_999_999, output: 0 }, 0],
    [{ input: 1.1, output: 0 }, { input: 4_503_599_627_370_495, output: 0 }, 4_953_959_590_107_545],
    [PRICE, { input: Number.MAX_SAFE_INTEGER, output: Number.MAX_SAFE_INTEGER }, MAX_COST],
    [PRICE, { input: -5, output: Number.NaN }, 0],
  ] as const
  for (const [price, tokens, cost] of cases) assert.equal(costOf(price, tokens), cost, JSON.stringify(tokens))
})

test('amounts are read and written without an error', () => {
  const cases = [
    [0, 0, '0.00'],
    [0.1, 100_000, '0.10'],
    [1.005, 1_005_000, '1.005'],
    [0.000375, 375, '0.000375'],
    [1234.5, 1_234_500_000, '1234.50'],
    [4.35, 4_350_000, '4.35'],
  ] as const
  for (const [amount, micros, text] of cases) {
    assert.equal(microsOf(amount), micros)
    assert.equal(amountText(micros), text)
  }
})

const target = (upstream: string, price?: { input: number; output: number }) => ({
  upstream,
  model: 'm',
  ...(price && { price }),
})
const MODELS = {
  large: { price: { input: 1, output: 10 }, targets: [target('a'), target('b', { input: 20, output: 1 })] },
  small: { price: { input: 0.5, output: 1 }, targets: [target('c')], max_output_tokens: 100 },
  free: { targets: [target('d')] },
  auto: { auto: [{ model: 'small' }, { model: 'large' }, { model: 'free' }] },
}
const TEXT = '{"format":"text"}'
const some = { inputTokens: 1000, responseFormatJson: TEXT }
const all = new Set(Object.keys(MODELS))

test('a target has its own price, or that of its model; gpt-auto has those of the models it chooses from', () => {
  const prices = new Prices(MODELS)
  const tokens = { input: 1000, output: 1000 }
  const cases = [
    ['large', 'a/m', 11_000],
    ['large', 'b/m', 21_000],
    ['large', 'c/m', null],
    ['small', 'c/m', 1500],
    ['free', 'd/m', null],
    ['auto', 'b/m', 21_000],
    ['auto', 'c/m', 1500],
    ['auto', 'd/m', null],
    ['unknown', 'a/m', null],
  ] as const
  for (const [model, name, cost] of cases) assert.equal(prices.costOf(model, name, tokens), cost)
  assert.equal(prices.isEmpty, false)
  assert.equal(new Prices({ free: MODELS.free }).isEmpty, true)
})

test('an estimate is that of the dearest target that the tier may use', () => {
  const prices = new Prices(MODELS)
  const estimate = (model: string, mayUse = all) => prices.estimateOf({ ...some, model }, mayUse)
  assert.equal(estimate('large'), 1000 + 10 * USUAL_OUTPUT_TOKENS)
  assert.equal(estimate('small'), 500 + 100)
  assert.equal(estimate('auto'), 1000 + 10 * USUAL_OUTPUT_TOKENS)
  assert.equal(prices.estimateOf({ ...some, model: 'auto' }, new Set(['auto', 'small'])), 500 + 100)
  assert.equal(estimate('free'), null)
  assert.equal(estimate('unknown'), null)
})

test('an estimate knows the limit of the answer, and that an answer in JSON may be repaired', () => {
  const prices = new Prices({
    one: { price: { input: 1, cached_input: 3, output: 10 }, targets: [target('a')] },
  })
  const estimate = (responseFormatJson: string) =>
    prices.estimateOf({ model: 'one', inputTokens: 1000, responseFormatJson }, new Set(['one']))
  assert.equal(estimate('{"options":{"max_tokens":50},"format":"text"}'), 3000 + 500)
  const json = 3 * 1256 + 500 + 3 * (1256 + 50 + 1024) + 500
  assert.equal(estimate('{"options":{"max_tokens":50},"format":"json"}'), json)
  const schema = 3 * 1258 + 500 + 3 * (1258 + 50 + 2 + 1024) + 500
  assert.equal(estimate('{"options":{"max_tokens":50},"format":"json","schema":{}}'), schema)
})
