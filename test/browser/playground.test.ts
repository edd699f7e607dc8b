/** The whole playground, with the simulator. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import type { Page } from 'playwright-core'
import { startParley } from '../parley.ts'
import { openBrowser, visit } from './visit.ts'

const parley = await startParley({ after })
const browser = await openBrowser({ after })

async function enter(
  t: Parameters<typeof visit>[0],
  options: Parameters<typeof visit>[4] = {},
): Promise<Page> {
  const page = await visit(t, browser, parley, '/dashboard/playground', options)
  await page.getByRole('button', { name: 'Create a key for one day' }).click()
  await page.getByText('Key of').waitFor()
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
  // The server's message differs only by a colon after the field.
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
  await page.getByRole('button', { name: 'Create a key for one day' }).click()
  await page.getByText('Key of').waitFor()
  assert.equal(await page.getByLabel('Model').inputValue(), 'llama')
  await send(page)
  await here(page, 'completed').waitFor()
})
