/** Asserts what responses contain, for all tests that send requests (SPEC §2.6 and §7). */
import assert from 'node:assert/strict'
import type { Answer } from '../parley.ts'

const JSON_TYPE = 'application/json; charset=utf-8'
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

export interface Refusal {
  readonly message: string
  readonly details: string | undefined
}

/** If `details` is null, the error must have none. */
interface ExpectedRefusal {
  readonly message?: string | RegExp
  readonly details?: string | RegExp | null
}

/** Returns the error's message and details. */
export function refused(answer: Answer, status: number, expected: ExpectedRefusal = {}): Refusal {
  assert.equal(answer.status, status, answer.text)
  assert.equal(answer.headers.get('content-type'), JSON_TYPE)
  assert.ok(answer.headers.get('x-request-id'), 'there is no x-request-id')
  const { success, message, details, ...rest } = answer.body
  assert.equal(success, false)
  assert.equal(typeof message, 'string')
  assert.notEqual(message, '')
  assert.ok(['string', 'undefined'].includes(typeof details))
  assert.deepEqual(rest, {})
  matches(message, expected.message)
  if (expected.details === null) assert.equal(details, undefined)
  else matches(details ?? '', expected.details)
  return { message, details }
}

function matches(text: string, expected: string | RegExp | undefined): void {
  if (typeof expected === 'string') assert.equal(text, expected)
  else if (expected !== undefined) assert.match(text, expected)
}

export function invalid(answer: Answer, details: string | RegExp): void {
  refused(answer, 400, { message: 'Invalid parameters.', details })
}

/** Returns the `data` of the standard envelope. */
export function granted(answer: Answer, status: number): Answer['body'] {
  assert.equal(answer.status, status, answer.text)
  assert.equal(answer.headers.get('content-type'), JSON_TYPE)
  assert.ok(answer.headers.get('x-request-id'), 'there is no x-request-id')
  const { success, message, data, ...rest } = answer.body
  assert.equal(success, true)
  assert.equal(typeof message, 'string')
  assert.notEqual(message, '')
  assert.deepEqual(rest, {})
  return data
}

export function enqueued(answer: Answer, count: number): string[] {
  const { job_ids: ids, ...rest } = granted(answer, 202)
  assert.deepEqual(rest, {})
  assert.equal(new Set(ids).size, count)
  for (const id of ids) assert.match(id, UUID)
  return ids
}

/** The response must be that of a single create that stopped waiting before its job had ended. Returns the job ID. */
export function timedOut(answer: Answer): string {
  const data = granted(answer, 202)
  assert.deepEqual(data, { status: 'timeout', job_id: data.job_id })
  assert.match(data.job_id, UUID)
  return data.job_id
}

export function completed(answer: Answer): Answer['body'] {
  const { status, job_id, created_at, result, error, ...rest } = granted(answer, 200)
  assert.equal(status, 'completed', answer.text)
  assert.match(job_id, UUID)
  assert.ok(Number.isInteger(created_at))
  assert.deepEqual(Object.keys(result), ['response_content'])
  assert.equal(error, null)
  assert.deepEqual(rest, {})
  return result.response_content
}

export function failed(answer: Answer): Answer['body'] {
  const { status, job_id, created_at, result, error, ...rest } = granted(answer, 200)
  assert.equal(status, 'failed', answer.text)
  assert.match(job_id, UUID)
  assert.ok(Number.isInteger(created_at))
  assert.equal(result, null)
  assert.deepEqual(rest, {})
  return error
}
