/** Tests that the programs that the playground shows do the same as the playground: each is copied from the page and run. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import test, { after } from 'node:test'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import { startParley } from '../parley.ts'
import { openBrowser, visit } from './visit.ts'

const parley = await startParley({ after })
const browser = await openBrowser({ after })
const execute = promisify(execFile)

/** Characters that a shell or a language might misinterpret. */
const HARD = `It's "quoted", $HOME, \`id\` and \\n – 日本 🚣\nJSON\nEOF\n\ttrue`
const SCHEMA = {
  type: 'object',
  properties: { 'na"me\'s': { type: 'string', description: HARD }, ok: { type: 'boolean' } },
  required: ['na"me\'s', 'ok'],
  additionalProperties: false,
}
const FORM = { 'na"me\'s': 'simulated na"me\'s', ok: true }

const asText = async (page: Page) => {
  await page.getByLabel('Text of message 1').fill(HARD)
}
const asSchema = async (page: Page) => {
  await asText(page)
  await page.getByText('json', { exact: true }).click()
  await page.getByRole('textbox', { name: 'Schema' }).fill(JSON.stringify(SCHEMA))
}
const asBatch = async (page: Page) => {
  await page.getByText('batch', { exact: true }).click()
  await page.getByLabel('Text of message 1').fill(`{{input}}\n${HARD}`)
  await page.getByLabel(/^Variants/).fill(`it's "one"\n$2 日本 \\n`)
}
const said = (words: string) => `This is a simulated answer; the last message was: "${words}"`
const variants = [`it's "one"\n${HARD}`, `$2 日本 \\n\n${HARD}`]

interface Written {
  readonly name: string
  readonly write: (page: Page) => Promise<void>
  /** The answer to each job. */
  readonly answers: readonly unknown[]
}

const SINGLE: readonly Written[] = [
  { name: 'one job, text', write: asText, answers: [said(HARD)] },
  { name: 'one job with a schema', write: asSchema, answers: [FORM] },
]
const BATCH: readonly Written[] = [
  { name: 'a batch, text', write: asBatch, answers: variants.map(said) },
  {
    name: 'a batch with a schema',
    write: async (page) => {
      await asSchema(page)
      await asBatch(page)
    },
    answers: [FORM, FORM],
  },
]

interface Program {
  readonly page: Page
  readonly env: NodeJS.ProcessEnv
}

async function written(t: Parameters<typeof visit>[0], { write }: Written): Promise<Program> {
  const page = await visit(t, browser, parley, '/dashboard/playground')
  await page.getByRole('button', { name: 'Create a key for one day' }).click()
  await page.getByText('Key of').waitFor()
  await write(page)
  const PARLEY_API_KEY = String(await page.evaluate("sessionStorage.getItem('parley.playground-key')"))
  return { page, env: { ...process.env, PARLEY_API_KEY, PYTHONIOENCODING: 'utf8' } }
}

/** Returns the program as shown, which is what its button copies; it does not contain the API key. */
async function programIn({ page, env }: Program, language: string): Promise<string> {
  await page.getByRole('tab', { name: language }).click()
  const shown = await page.getByRole('region', { name: `the ${language} program` }).textContent()
  await page.getByRole('button', { name: `Copy the ${language} program` }).click()
  assert.equal(await page.evaluate('navigator.clipboard.readText()'), shown)
  assert.ok(!shown?.includes(env.PARLEY_API_KEY ?? ''))
  return shown ?? ''
}

async function run({ env }: Program, command: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await execute(command, args, { env })
  return stdout.trimEnd()
}

/** Runs the program with the client's source, because the client is not built here. */
async function runTypescript(program: Program): Promise<string> {
  const client = new URL('../../client/src/index.ts', import.meta.url).href
  const text = (await programIn(program, 'TypeScript')).replace("'parley-client'", JSON.stringify(client))
  return await run(program, process.execPath, '--input-type=module-typescript', '-e', text)
}

/** Parses the output as the answer that it represents. */
const read = (printed: string, answer: unknown): unknown =>
  typeof answer === 'string' ? printed : JSON.parse(printed)

for (const one of SINGLE) {
  test(`curl, TypeScript and Python do the same: ${one.name}`, async (t) => {
    const program = await written(t, one)
    const [answer] = one.answers
    assert.deepEqual(read(await runTypescript(program), answer), answer)
    const curl = await programIn(program, 'curl')
    if (await isThere(t, 'curl')) {
      const { data } = JSON.parse(await run(program, 'sh', '-c', curl))
      assert.deepEqual(data.result.response_content, answer)
    }
    const python = await programIn(program, 'Python')
    if (await isThere(t, 'python3'))
      assert.deepEqual(read(await run(program, 'python3', '-c', python), answer), answer)
  })
}

for (const one of BATCH) {
  test(`curl, TypeScript and Python do the same: ${one.name}`, async (t) => {
    const program = await written(t, one)
    const { answers } = one
    assert.deepEqual(readAll(await runTypescript(program), /^[0-9a-f-]{36} completed /m, answers), answers)
    const curl = await programIn(program, 'curl')
    if (await isThere(t, 'curl')) assert.deepEqual(await answersByCurl(program, curl), answers)
    const python = await programIn(program, 'Python')
    if (await isThere(t, 'python3')) {
      const printed = await run(program, 'python3', '-c', python)
      assert.deepEqual(readAll(printed, /^[0-9a-f-]{36} /m, answers), answers)
    }
  })
}

/** @param head the text before each answer */
function readAll(printed: string, head: RegExp, answers: readonly unknown[]): unknown[] {
  const [before, ...parts] = printed.split(head)
  assert.equal(before, '')
  return parts.map((part, index) => read(part.replace(/\n$/, ''), answers[index]))
}

/** Sends the batch, then reads each job with the program's own line for that. */
async function answersByCurl(program: Program, text: string): Promise<unknown[]> {
  const { data } = JSON.parse(await run(program, 'sh', '-c', text))
  const line = /^# (curl .* -H .*)$/m.exec(text)?.[1] ?? assert.fail('no line to read a job by')
  const answers: unknown[] = []
  for (const id of data.job_ids) {
    await parley.ended(id, program.env.PARLEY_API_KEY ?? '')
    const job = JSON.parse(await run(program, 'sh', '-c', line.replace('JOB_ID', id)))
    answers.push(job.data.result.response_content)
  }
  return answers
}

async function isThere(t: { diagnostic(message: string): void }, command: string): Promise<boolean> {
  try {
    await execute(command, ['--version'])
    return true
  } catch {
    t.diagnostic(`${command} is not on this machine`)
    return false
  }
}
