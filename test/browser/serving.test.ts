/** Tests how the dashboard's page is served: its headers, and that everything it refers to exists. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import test, { after } from 'node:test'
import { startParley } from '../parley.ts'

const parley = await startParley({ after })
const page = await parley.get('/dashboard')

test('/dashboard is a page that anyone may load', () => {
  assert.equal(page.status, 200)
  assert.match(page.headers.get('content-type') ?? '', /^text\/html/)
  assert.equal(
    page.headers.get('content-security-policy'),
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  )
  assert.equal(page.headers.get('x-content-type-options'), 'nosniff')
})

test('it contains no inline script or style, and nothing from other origins', () => {
  assert.doesNotMatch(page.text, /<style|\sstyle=|\son\w+=/)
  for (const [, attributes] of page.text.matchAll(/<script([^>]*)>/g))
    assert.match(`${attributes}`, / src="\//)
  const addresses = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map((found) => `${found[1]}`)
  for (const address of addresses) assert.match(address, /^(?:\/dashboard\/files\/|data:image\/svg)/)
})

test('every file that it refers to exists, may be cached forever, and is compressed for clients that accept it', async () => {
  const addresses = [...page.text.matchAll(/"(\/dashboard\/files\/[^"]+)"/g)].map((found) => `${found[1]}`)
  assert.ok(addresses.length > 20)
  for (const address of addresses) {
    const [plain, small] = await Promise.all([
      parley.get(address, undefined, { 'accept-encoding': 'identity' }),
      parley.get(address, undefined, { 'accept-encoding': 'gzip' }),
    ])
    assert.equal(plain.status, 200, address)
    assert.match(plain.headers.get('content-type') ?? '', /^text\/(javascript|css)/)
    assert.match(plain.headers.get('cache-control') ?? '', /immutable/)
    assert.equal(small.headers.get('content-encoding'), 'gzip')
    assert.equal(small.text, plain.text)
    for (const [, name] of plain.text.matchAll(/^import .* from '([^']+)'/gm))
      assert.match(`${name}`, /^\.+\//)
  }
})

test('it imports from the server only what runs in browsers, and from the admin API only types and a rule', () => {
  const folders = [...page.text.matchAll(/"\/dashboard\/files\/[^/"]+\/((?:src\/)?[^/"]+)\/[^"]+"/g)].map(
    (found) => found[1],
  )
  assert.deepEqual([...new Set(folders)].sort(), ['json-schema', 'lib', 'src/admin', 'src/dashboard'])
  const ofAdmin = page.text.matchAll(/\/src\/admin\/([^"]+)/g)
  assert.deepEqual(
    Array.from(ofAdmin, ([, file]) => file),
    ['operator-name.js'],
  )
})

test('every style sheet of the source is in the one that is served', async () => {
  const [, address = ''] = /"([^"]+\/style\.css)"/.exec(page.text) ?? []
  const { text } = await parley.get(address)
  const folder = new URL('../../src/dashboard/page/styles/', import.meta.url)
  for (const name of readdirSync(folder))
    assert.ok(text.includes(readFileSync(new URL(name, folder), 'utf8')), name)
})

test('a page that did not change is not sent again', async () => {
  const etag = page.headers.get('etag') ?? ''
  assert.equal((await parley.get('/dashboard', undefined, { 'if-none-match': etag })).status, 304)
  assert.equal((await parley.get('/dashboard', undefined, { 'if-none-match': '"other"' })).status, 200)
})

test('every address below it is the same page; files that are not there are not found', async () => {
  assert.equal((await parley.get('/dashboard/jobs/some-id')).text, page.text)
  const [file = ''] = /\/dashboard\/files\/[^"]+/.exec(page.text) ?? []
  assert.equal((await parley.get(file.replace(/[^/]+$/, 'none.js'))).status, 404)
  assert.equal((await parley.get(file.replace(/files\/[^/]+/, 'files/old'))).status, 404)
})
