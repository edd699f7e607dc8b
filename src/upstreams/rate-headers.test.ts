/** The limits that servers report in headers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readRateHeaders } from './retry-after.ts'

const NONE = Number.POSITIVE_INFINITY
const CASES: readonly (readonly [
  headers: Record<string, string>,
  expected: ReturnType<typeof readRateHeaders>,
])[] = [
  [{}, null],
  [{ 'x-ratelimit-limit-tokens': '60000' }, null],
  [
    {
      'x-ratelimit-limit-requests': '500',
      'x-ratelimit-limit-tokens': '60000',
      'x-ratelimit-remaining-requests': '499',
      'x-ratelimit-remaining-tokens': '59000',
      'x-ratelimit-reset-requests': '120ms',
      'x-ratelimit-reset-tokens': '1m2.5s',
    },
    {
      limit: { requests: 500, tokens: 60_000 },
      left: { requests: 499, tokens: 59_000 },
      resetMs: { requests: 120, tokens: 62_500 },
    },
  ],
  // Groq limits requests per day and tokens per minute.
  [
    {
      'x-ratelimit-limit-requests': '14400',
      'x-ratelimit-limit-tokens': '6000',
      'x-ratelimit-remaining-requests': '14370',
      'x-ratelimit-remaining-tokens': '5400',
      'x-ratelimit-reset-requests': '2m59.56s',
      'x-ratelimit-reset-tokens': '6s',
    },
    {
      limit: { requests: 14_400, tokens: 6000 },
      left: { requests: 14_370, tokens: 5400 },
      resetMs: { requests: 179_560, tokens: 6000 },
    },
  ],
  [
    {
      'x-ratelimit-limit-requests': '0',
      'x-ratelimit-limit-tokens': '0',
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-remaining-tokens': '0',
    },
    null,
  ],
  [
    { 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '7' },
    {
      limit: { requests: NONE, tokens: NONE },
      left: { requests: NONE, tokens: 0 },
      resetMs: { requests: 60_000, tokens: 7000 },
    },
  ],
  [
    {
      'x-ratelimit-remaining-requests': 'many',
      'x-ratelimit-remaining-tokens': '5',
      'x-ratelimit-reset-tokens': 'soon',
    },
    {
      limit: { requests: NONE, tokens: NONE },
      left: { requests: NONE, tokens: 5 },
      resetMs: { requests: 60_000, tokens: 60_000 },
    },
  ],
]

for (const [headers, expected] of CASES) {
  test(`rate headers ${JSON.stringify(headers)}`, () => assert.deepEqual(readRateHeaders(headers), expected))
}
