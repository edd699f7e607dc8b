/** The dashboard as operators use it: signing in, watching, searching, replaying, keys. */
import assert from 'node:assert/strict'
import test, { after } from 'node:test'
import { ADMIN_TOKEN, job, startParley } from '../parley.ts'
import { startReceiver } from '../receiver.ts'
import { openBrowser, visit } from './visit.ts'

const receiver = await startReceiver()
const parley = await startParley(
  { after },
  { settings: { callbacks: { allow_networks: ['127.0.0.0/8'], retry_seconds: [0] } } },
)
after(() => receiver.close())
const browser = await openBrowser({ after })
const key = await parley.key('user_max', 'acme')
const say = (content: string) => [{ role: 'user', content }]

test('an empty server says so, and points to the playground', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard')
  await page.getByText('No job has run here yet').waitFor()
  await page.getByRole('main').getByRole('link', { name: 'playground' }).click()
  await page.getByRole('heading', { name: 'Playground', level: 1 }).waitFor()
})

test('a wrong token is refused in words, the right one opens; signing out closes', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/settings', { signedIn: false, expected: /401/ })
  await page.getByLabel('Admin token').fill('guess')
  await page.keyboard.press('Enter')
  await page.getByText('This is not the admin token of this server.').waitFor()
  assert.equal(await page.evaluate('sessionStorage.length'), 0)
  await page.getByLabel('Admin token').fill(ADMIN_TOKEN)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor()
  assert.equal((await page.context().cookies()).length, 0)
  await page.reload()
  await page.getByRole('heading', { name: 'Settings', level: 1 }).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Admin token').waitFor()
  assert.equal(await page.evaluate('sessionStorage.length'), 0)
})

test('a token that is taken no more leads back to signing in, and says why', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard', { signedIn: false, expected: /401/ })
  await page.evaluate("sessionStorage.setItem('parley.admin-token', 'of yesterday')")
  await page.reload()
  await page.getByText('not accepted any more').waitFor()
})

test('the overview lives by events, and comes back after a lost connection', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/jobs', { expected: /ERR_FAILED/ })
  let isCut = true
  await page.route('**/admin/api/events', (route) => (isCut ? route.abort() : route.continue()))
  await page.goto('/dashboard')
  await page.getByText('Reconnecting', { exact: true }).waitFor()
  isCut = false
  await page.getByText('Live', { exact: true }).waitFor()
  await parley.post('/api/v1/messages', job({ messages: say('count me') }), key)
  const ended = page.locator('.figure').filter({ hasText: 'Ended' }).locator('.figure-value')
  await page.waitForFunction((figure) => figure?.textContent !== '0', await ended.elementHandle())
  const outcomes = page.getByRole('figure', { name: /Jobs by outcome/ })
  await outcomes.getByRole('button', { name: 'Jobs by outcome as a table' }).click()
  await outcomes.getByRole('columnheader', { name: 'completed' }).waitFor()
})

test('jobs are found by filters that stand in the address, and the back button goes back', async (t) => {
  await parley.post('/api/v1/messages', job({ messages: say('[[fail timeout]]') }), key)
  await parley.post('/api/v1/messages', job({ model: 'gpt-auto', messages: say('fine') }), key)
  const page = await visit(t, browser, parley, '/dashboard/jobs')
  const rows = page.locator('tbody tr')
  await rows.first().waitFor()
  const all = await rows.count()
  await page.getByLabel('Status').selectOption('failed')
  await page.waitForURL(/status=failed/)
  await page.getByText('timeout', { exact: true }).waitFor()
  assert.equal(await rows.count(), 1)
  await page.getByLabel('Model').selectOption('gpt-auto')
  await page.getByText('No job fits').waitFor()
  await page.goBack()
  await page.getByText('timeout', { exact: true }).waitFor()
  await page.goBack()
  await page.waitForFunction((count) => document.querySelectorAll('tbody tr').length === count, all)
  await page.getByLabel('Account').fill('nobody')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.getByText('No job fits').waitFor()
})

test('a job shows its timeline, and its contents only when asked, which is logged', async (t) => {
  const schema = {
    type: 'object',
    properties: { n: { type: 'integer' } },
    required: ['n'],
    additionalProperties: false,
  }
  const { body } = await parley.post(
    '/api/v1/messages',
    job({ messages: say('[[bad-json once]] secret words'), response_format: { format: 'json', schema } }),
    key,
  )
  const id = body.data.job_id
  const page = await visit(t, browser, parley, '/dashboard/jobs')
  await page.getByLabel('Job id').fill(id)
  await page.keyboard.press('Enter')
  await page.getByText('Settled', { exact: true }).waitFor()
  assert.equal(await page.locator('.timeline li').count(), 5)
  assert.doesNotMatch((await page.textContent('main')) ?? '', /secret words/)
  const looks = () => parley.log.filter(({ what }) => what === 'look at contents').length
  assert.equal(looks(), 0)
  await page.getByRole('button', { name: /Show contents .*logged/ }).click()
  await page.getByText('secret words').waitFor()
  await page.getByRole('heading', { name: 'Repair' }).waitFor()
  for (const words of [
    'which meets the strict rules',
    'kept, in the caller',
    'the simulator makes JSON by itself',
    'the answer is not JSON',
  ]) {
    await page.getByText(words).first().waitFor()
  }
  assert.equal(looks(), 1)
})

test('the receipt tells how each server was asked, and what an earlier version did not record', async (t) => {
  const messages = [{ role: 'developer', content: 'Be brief.' }, ...say('a number')]
  const { body } = await parley.post(
    '/api/v1/messages',
    job({ messages, response_format: { format: 'json' } }),
    key,
  )
  const page = await visit(t, browser, parley, `/dashboard/jobs/${body.data.job_id}`)
  const call = { kind: 'answer', status: 200, at_ms: 0, ms: 1 }
  const told = async (...calls: readonly Record<string, string>[]) => {
    await page.route('**/content', async (route) => {
      const response = await route.fetch()
      const answer = await response.json()
      answer.data.receipt.calls = calls.map((one) => ({ ...call, ...one }))
      await route.fulfill({ response, json: answer })
    })
    await page.getByRole('button', { name: /Show contents/ }).click()
    const panel = page
      .locator('section')
      .filter({ has: page.getByRole('heading', { name: 'Receipt', exact: true }) })
    const text = (await panel.textContent()) ?? ''
    await page.getByRole('button', { name: 'Hide contents' }).click()
    await page.unroute('**/content')
    return text
  }
  const mapped = { target: 'a/m', roles: 'developer_as_system', json_mode: 'json_object' }
  const one = await told(mapped, mapped)
  assert.match(one, /developer, user – developer was sent as system, in the caller's order/)
  assert.match(one, /json_object: any object/)
  const two = await told(mapped, { target: 'b/n', roles: 'native', json_mode: 'instruction' })
  assert.match(two, /a\/m: developer, user – developer was sent.*; b\/n: developer, user – kept/)
  assert.match(two, /a\/m: json_object.*; b\/n: an instruction alone/)
  assert.equal((await told({ target: 'a/m' })).match(/not recorded/g)?.length, 2)
})

test('a browser whose language no standard knows is shown charts all the same', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/settings')
  await page.addInitScript(
    "Object.defineProperty(Navigator.prototype, 'language', { get: () => 'en-US@posix' })",
  )
  await page.goto('/dashboard')
  await page.locator('.uplot').first().waitFor()
})

test('an unknown job and an unknown page say so', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/jobs/none', { expected: /404/ })
  await page.getByText('There is no such job').waitFor()
  await page.goto('/dashboard/nowhere')
  await page.getByText('There is no such page').waitFor()
})

test('a failed callback is shown with its attempts and replayed; so are all', async (t) => {
  receiver.script(
    ...Array.from({ length: 3 }, () => ({ kind: 'answer', status: 500, body: 'not today' }) as const),
  )
  const callback = { callback_url: receiver.url, callback_payload: { order: 7 } }
  const jobs = ['one', 'two', 'three'].map((words) => job({ messages: say(words), callback }))
  const { body } = await parley.post('/api/v1/messages/batches', jobs, key)
  const [first] = body.data.job_ids
  await receiver.received(3)
  const page = await visit(t, browser, parley, '/dashboard/callbacks')
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 3)
  await page.goto(`/dashboard/callbacks/${first}`)
  await page.getByText('not today').waitFor()
  await page.getByRole('button', { name: /Replay the callback/ }).click()
  await receiver.received(4)
  await page.getByText('HTTP 200').waitFor()
  await page.getByRole('link', { name: 'Callbacks', exact: true }).last().click()
  await page.getByRole('button', { name: 'Replay all failed…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Replay all' }).click()
  await page.getByText('2 callbacks are due again.').waitFor()
  await receiver.received(6)
  await page.getByText('No callback has failed').waitFor()
  await page.getByRole('link', { name: 'delivered' }).click()
  await page.waitForFunction(() => document.querySelectorAll('tbody tr').length === 3)
})

test('a key is made, shown once, works, and is revoked; tiers and secrets change', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/accounts', { expected: /400/ })
  await page.getByRole('button', { name: 'Create a key…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Account').fill('not a name!')
  await dialog.getByRole('button', { name: 'Create' }).click()
  await dialog.getByRole('alert').waitFor()
  await dialog.getByLabel('Account').fill('newcomer')
  await dialog.getByLabel('Tier').selectOption('user_go')
  await dialog.getByRole('button', { name: 'Create' }).click()
  const made = (await dialog.locator('[data-key]').textContent()) ?? ''
  assert.match(made, /^prl_\w{38}$/)
  await dialog.getByRole('button', { name: 'Copy the key' }).click()
  assert.equal(await page.evaluate('navigator.clipboard.readText()'), made)
  await dialog.getByRole('button', { name: 'I have it' }).click()
  assert.equal((await parley.get('/api/v1/me', made)).body.data.tier, 'user_go')
  assert.doesNotMatch(await page.content(), /prl_/)

  await page.getByLabel('Tier of newcomer').selectOption('user_pro')
  await page.getByText('newcomer has the tier user_pro now').waitFor()
  await page.getByRole('button', { name: 'Signing secret of newcomer' }).click()
  await dialog.getByRole('button', { name: 'Show (logged)' }).click()
  const secret = await dialog.locator('code').textContent()
  await dialog.getByRole('button', { name: 'Rotate…' }).click()
  await dialog.getByRole('button', { name: 'Rotate now' }).click()
  await page.waitForFunction((old) => document.querySelector('dialog code')?.textContent !== old, secret)
  await dialog.getByRole('button', { name: 'Close' }).click()

  await page.getByRole('link', { name: 'newcomer', exact: true }).click()
  await page.getByRole('heading', { name: 'Keys of newcomer' }).waitFor()
  await page.getByRole('button', { name: /^Revoke key_/ }).click()
  await dialog.getByRole('button', { name: 'Revoke' }).click()
  await page.getByText('revoked', { exact: true }).waitFor()
  const keys = await parley.store.listKeys()
  assert.ok(keys.find(({ account }) => account === 'newcomer')?.revokedAtMs)
})

test('the settings in force are shown, without secrets', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/settings')
  const row = page.getByRole('row').filter({ hasText: 'allow_networks' })
  assert.match((await row.textContent()) ?? '', /127\.0\.0\.0\/8/)
  assert.doesNotMatch(await page.content(), new RegExp(ADMIN_TOKEN))
})

test('the colours follow the system until they are switched', async (t) => {
  const page = await visit(t, browser, parley, '/dashboard/jobs', { theme: 'dark' })
  const theme = () => page.evaluate('document.documentElement.dataset.theme')
  await page.getByRole('heading', { name: 'Jobs', level: 1 }).waitFor()
  assert.equal(await theme(), 'dark')
  await page.getByRole('button', { name: 'Switch to light colours' }).click()
  await page.reload()
  await page.getByRole('heading', { name: 'Jobs', level: 1 }).waitFor()
  assert.equal(await theme(), 'light')
})

test('/docs shows the routes under its policy', async (t) => {
  const page = await visit(t, browser, parley, '/docs')
  await page.getByText('Create one job and wait for its answer').first().waitFor()
  assert.equal(await page.getByText('Ask AI').count(), 0)
})
