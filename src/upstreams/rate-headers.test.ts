/** Tests the limits that servers report in headers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readRateHeaders } from './retry-after.ts'

const NONE = Number.POSITIVE_INFINITY
/** Each list contains a limit, what remains of it, and its reset. */
const headersOf = (requests: readonly string[], tokens: readonly string[]) =>
  Object.fromEntries(
    ['limit', 'remaining', 'reset'].flatMap((name, at) => [
      [`x-ratelimit-${name}-requests`, requests[at]],
      [`x-ratelimit-${name}-tokens`, tokens[at]],
    ]),
  ) as Record<string, string>

const left = { 'x-ratelimit-remaining-tokens': '5' }

for (const [headers, limit, remaining, resetMs] of [
  [{}],
  [{ 'x-ratelimit-limit-tokens': '60000' }],
  [
    headersOf(['500', '499', '120ms'], ['60000', '59000', '1m2.5s']),
    [500, 60_000],
    [499, 59_000],
    [120, 62_500],
  ],
  // Groq limits requests per day and tokens per minute.
  [
    headersOf(['14400', '14370', '2m59.56s'], ['6000', '5400', '6s']),
    [14_400, 6000],
    [14_370, 5400],
    [179_560, 6000],
  ],
  [headersOf(['0', '0'], ['0', '0'])],
  [{ ...left, 'x-ratelimit-reset-tokens': '7' }, [NONE, NONE], [NONE, 5], [60_000, 7000]],
  [{ 'x-ratelimit-remaining-tokens': '0' }, [NONE, NONE], [NONE, 0], [60_000, 60_000]],
  [
    { ...left, 'x-ratelimit-remaining-requests': 'many', 'x-ratelimit-reset-tokens': 'soon' },
    [NONE, NONE],
    [NONE, 5],
    [60_000, 60_000],
  ],
] as readonly (readonly [Record<string, string>, ...(readonly number[])[]])[]) {
  test(`rate headers ${JSON.stringify(headers)}`, () => {
    const both = ([requests, tokens]: readonly number[] = []) => ({ requests, tokens })
    const expected = limit && { limit: both(limit), left: both(remaining), resetMs: both(resetMs) }
    assert.deepEqual(readRateHeaders(headers), expected ?? null)
  })
}
