/** Tests the whole playground, with the simulator, and the programs that it shows. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import test, { after } from 'node:test'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import { startParley } from '../parley.ts'
import { createKey } from './steps.ts'
import { openBrowser, visit } from './visit.ts'

const parley = await startParley({ after })
const browser = await openBrowser({ after })
const execute = promisify(execFile)

async function enter(
  t: Parameters<typeof visit>[0],
  options: Parameters<typeof visit>[4] = {},
): Promise<Page> {
  const page = await visit(t, browser, parley, '/dashboard/playground', options)
  await createKey(page)
  return page
}

const send = (page: Page) => page.getByRole('button', { name: 'Send' }).click()
const here = (page: Page, status: string) => page.locator(`.step.is-here.is-${status}`)

test('messages in four roles are added, ordered, removed, sent, watched and answered', async (t) => {
  const page = await enter(t)
  for (const [index, role] of ['system', 'developer', 'assistant', 'user'].entries()) {
    if (index > 0) await page.getByRole('button', { name: 'Add message' }).click()
    await page.getByLabel(`Role of message ${index + 1}`).selectOption(role)
    await page.getByLabel(`Text of message ${index + 1}`).fill(`I am ${role}`)
  }
  await page.getByRole('button', { name: 'Move message 3 up' }).click()
  await page.getByRole('button', { name: 'Remove message 3' }).click()
  await page.getByLabel('Text of message 3').fill('[[delay 1s]] I am user')
  await page.getByLabel('Model').selectOption('gpt-5.2')
  await send(page)
  await here(page, 'assigned').waitFor()
  await here(page, 'completed').waitFor()
  await page
    .getByRole('region', { name: 'the answer' })
    .getByText('the last message was: "I am user"')
    .waitFor()

  await page.getByRole('link', { name: 'Timeline and receipt' }).click()
  await page.getByRole('button', { name: /Show contents/ }).click()
  const roles = page.locator('.conversation .role')
  await roles.first().waitFor()
  assert.deepEqual(await roles.allTextContents(), ['system', 'assistant', 'user'])
  await page.goBack()
  assert.equal(await page.getByLabel('Text of message 1').inputValue(), 'I am system')
})

test('a schema is checked as it is typed by the rules of the server, and its answer has that form', async (t) => {
  const page = await enter(t, { expected: /400/ })
  await page.getByText('json', { exact: true }).click()
  const schema = page.getByRole('textbox', { name: 'Schema' })
  await schema.fill('{ "type": "object",')
  await page.locator('.verdict').getByText('Not valid JSON').waitFor()
  assert.ok(await page.getByRole('button', { name: 'Send' }).isDisabled())
  const faulty = { type: 'object', unevaluatedProperties: false }
  await schema.fill(JSON.stringify(faulty))
  const verdict = page.locator('.verdict.is-fault')
  await verdict.getByText('response_format.schema.unevaluatedProperties').waitFor()
  await send(page)
  const alert = page.locator('.fault').filter({ hasText: 'Invalid parameters.' })
  await alert.waitFor()
  // The server's message differs from the page's only by a colon after the field.
  const [said, foreseen] = [await alert.textContent(), await verdict.textContent()]
  assert.equal(said?.replace('Invalid parameters.', '').replace(': ', ' '), foreseen)
  await schema.fill('{ "type": "object", "x-order": 1 }')
  await page.locator('.verdict').getByText('Accepted, but not checked: /x-order').waitFor()
  await page.getByLabel('Fill in an example').selectOption('JSON with a schema')
  await page.getByText('The schema is valid and strict').first().waitFor()
  await send(page)
  await page.getByRole('region', { name: 'the answer' }).getByText('"simulated river"').waitFor()
})

test('a failed job and a forbidden model are shown with their reasons', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/playground', { expected: /40[13]/ })
  await page.getByLabel('Or paste a key').fill('prl_wrong')
  await page.getByRole('button', { name: 'Use this key' }).click()
  await page.getByText('The server does not accept this key.').waitFor()
  await page.getByLabel('Or paste a key').fill(await parley.key('user_free', 'trial'))
  await page.getByRole('button', { name: 'Use this key' }).click()
  await page.getByText('Key of').waitFor()
  await page.getByLabel('Fill in an example').selectOption('A failure')
  await send(page)
  await here(page, 'failed').waitFor()
  await page.locator('.outcome').getByText('model_error').waitFor()
  await page.getByLabel('Model').selectOption('gpt-5')
  await send(page)
  await page.getByText('Insufficient permissions: tier user_free cannot use model gpt-5.').first().waitFor()
})

test('a batch of variants is followed until every job has ended', async (t) => {
  const page = await enter(t)
  await page.getByLabel('Fill in an example').selectOption('A batch of variants')
  await send(page)
  await page.getByRole('heading', { name: 'Answers (3 of 3)' }).waitFor()
  const answers = await page.getByRole('region', { name: 'the answer' }).allTextContents()
  assert.deepEqual(
    answers.map((text) => /The capital of (\w+)/.exec(text)?.[1]),
    ['France', 'Japan', 'Peru'],
  )
})

test('running jobs can be cancelled, single ones and those of a batch', async (t) => {
  const page = await enter(t)
  await page.getByLabel('Text of message 1').fill('[[delay 100s]] A long one')
  await send(page)
  await page.getByRole('button', { name: 'Cancel the job' }).click()
  await here(page, 'failed').waitFor()
  await page.locator('.outcome').getByText('The caller cancelled the job.').waitFor()
  await page.getByLabel('Fill in an example').selectOption('A batch of variants')
  await page.getByLabel('Text of message 2').fill('[[delay 100s]] {{input}}')
  await send(page)
  await page.getByRole('button', { name: 'Cancel 3 jobs' }).click()
  await page.getByRole('heading', { name: 'Answers (3 of 3)' }).waitFor()
  assert.equal(await page.locator('.outcome').getByText('The caller cancelled the job.').count(), 3)
})

test('on a server without the default model, the first of its models is sent', async (t) => {
  const none = { 'gpt-auto': null, 'gpt-5': null, 'gpt-5.2': null, 'gpt-5-mini': null }
  const models = { llama: { targets: [{ upstream: 'openai', model: 'llama' }] }, ...none }
  const own = await startParley(t, { settings: { models } })
  const page = await visit(t, browser, own, '/dashboard/playground')
  await createKey(page)
  assert.equal(await page.getByLabel('Model').inputValue(), 'llama')
  await send(page)
  await here(page, 'completed').waitFor()
})

/** A shell or a programming language might misinterpret these characters. */
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
  const page = await enter(t)
  await write(page)
  const PARLEY_API_KEY = String(await page.evaluate("sessionStorage.getItem('parley.playground-key')"))
  return { page, env: { ...process.env, PARLEY_API_KEY, PYTHONIOENCODING: 'utf8' } }
}

/** Returns the program as shown, which does not contain the API key. The button must copy the same text. */
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

/** The client is not built here, so the program imports the client's source. */
async function runTypescript(program: Program): Promise<string> {
  const client = new URL('../../client/src/index.ts', import.meta.url).href
  const text = (await programIn(program, 'TypeScript')).replace("'parley-client'", JSON.stringify(client))
  return await run(program, process.execPath, '--input-type=module-typescript', '-e', text)
}

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

function readAll(printed: string, head: RegExp, answers: readonly unknown[]): unknown[] {
  const [before, ...parts] = printed.split(head)
  assert.equal(before, '')
  return parts.map((part, index) => read(part.replace(/\n$/, ''), answers[index]))
}

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
