/**
 * Measures how long the calls of this folder hold the event loop: `node test/support/measure-schemas.ts [rounds]`. Prints the
 * worst call of each kind, by family, and the cost of an ordinary schema. Not part of the server.
 */
import fc from 'fast-check'
import { checkAnswer } from '../../src/json-schema/check-answer.ts'
import { CHECK_STEPS } from '../../src/json-schema/limits.ts'
import { makeInstance } from '../../src/json-schema/make-instance.ts'
import { readSchema } from '../../src/json-schema/read-schema.ts'
import { Steps } from '../../src/json-schema/steps.ts'
import { meetsStrictRules } from '../../src/json-schema/strict-rules.ts'
import { anyValue, HOSTILE_FAMILIES, wellFormed } from './generated-schemas.ts'

interface Worst {
  ms: number
  of: string
}

const worst = new Map<string, Worst>()

function timed<T>(call: string, of: string, act: () => T): T {
  const start = performance.now()
  const result = act()
  const ms = performance.now() - start
  for (const key of [call, `${call} | ${of}`]) {
    const before = worst.get(key)
    if (before === undefined || ms > before.ms) worst.set(key, { ms, of })
  }
  return result
}

function tryAll(family: string, schema: unknown, answer: unknown): void {
  const read = timed('readSchema', family, () => readSchema(schema))
  if (!read.ok) return
  timed('checkAnswer', family, () => checkAnswer(read.schema, answer, new Steps(CHECK_STEPS)))
  const made = timed('makeInstance', family, () => makeInstance(read.schema))
  timed('meetsStrictRules', family, () => meetsStrictRules(read.schema))
  if (made.ok) timed('checkAnswer of the made', family, () => checkAnswer(read.schema, made.value))
}

const ORDINARY = {
  type: 'object',
  properties: {
    name: { type: 'string', description: 'The full name of the person as it is written in the text.' },
    age: { type: 'integer', minimum: 0, maximum: 150, description: 'Age in years.' },
    email: { type: ['string', 'null'], format: 'email' },
    code: { type: 'string', pattern: '^[A-Z]{2}\\d{4}$' },
    role: { type: 'string', enum: ['owner', 'member', 'guest'] },
    tags: { type: 'array', items: { type: 'string' }, maxItems: 10 },
    address: {
      type: 'object',
      properties: {
        street: { type: 'string' },
        city: { type: 'string' },
        country: { $ref: '#/$defs/country' },
      },
      required: ['street', 'city', 'country'],
      additionalProperties: false,
    },
  },
  required: ['name', 'age', 'email', 'code', 'role', 'tags', 'address'],
  additionalProperties: false,
  $defs: { country: { type: 'string', minLength: 2, maxLength: 2, description: 'ISO 3166 code.' } },
}

function measureOrdinary(): void {
  const read = readSchema(ORDINARY)
  if (!read.ok) throw new Error(`${read.path} ${read.rule}`)
  const made = makeInstance(read.schema)
  const calls: [string, () => unknown][] = [
    ['readSchema', () => readSchema(ORDINARY)],
    ['checkAnswer', () => checkAnswer(read.schema, made.ok ? made.value : null)],
    ['meetsStrictRules', () => meetsStrictRules(read.schema)],
    ['makeInstance', () => makeInstance(read.schema)],
  ]
  const times = 20_000
  for (const [name, call] of calls) {
    const start = performance.now()
    for (let count = 0; count < times; count++) call()
    const us = ((performance.now() - start) * 1000) / times
    print(`ordinary (${JSON.stringify(ORDINARY).length} bytes) ${name}: ${us.toFixed(2)} µs`)
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

const rounds = Number(process.argv[2] ?? 10_000)
for (const size of [1, 2, 5, 10, 20, 40, 70, 100]) {
  for (const family of HOSTILE_FAMILIES) {
    const { family: name, schema, answer } = family(size)
    tryAll(`${name} × ${size}`, schema, answer)
  }
}
const sampled = fc.sample(fc.tuple(wellFormed, anyValue), { numRuns: rounds, seed: 1 })
for (const [schema, answer] of sampled) tryAll('random', schema, answer)
for (const [key, { ms, of }] of [...worst].sort((a, b) => b[1].ms - a[1].ms).slice(0, 25)) {
  print(`${ms.toFixed(2).padStart(8)} ms  ${key}${key.includes('|') ? '' : ` (${of})`}`)
}
print(`${rounds} random schemas, ${HOSTILE_FAMILIES.length} hostile families`)
measureOrdinary()
