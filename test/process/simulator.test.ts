/** Tests `parley serve` and `parley check` without a model: the simulator never answers by accident. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { gauge } from './gauge.ts'
import { installation } from './server-process.ts'

const timeout = 60_000
const NO_SUCH_HOST = 'postgres://nobody@127.0.0.1:1/nowhere'

for (const [what, env] of [
  ['on Postgres', { DATABASE_URL: NO_SUCH_HOST }],
  ['on all addresses', { HOST: '0.0.0.0' }],
  ['with PARLEY_SIMULATOR=false', { PARLEY_SIMULATOR: 'false' }],
] as const) {
  test(`without a model ${what}, the server does not start, and names three ways out`, {
    timeout,
  }, async (t) => {
    const place = await installation(t)
    const { code, stdout, stderr } = await place.parley(['serve'], { env })
    assert.equal(code, 1)
    assert.equal(stdout, '')
    assert.match(stderr, /no model is configured.*OPENAI_API_KEY.*upstreams.*PARLEY_SIMULATOR=true/)
    const checked = await place.parley(['check'], { env })
    assert.equal(checked.code, 1)
    assert.match(checked.stdout, /^WRONG configuration: .*simulator: no model is configured/m)
  })
}

test('PARLEY_SIMULATOR=true lets it answer there; the output, the log and check say so', {
  timeout,
}, async (t) => {
  const place = await installation(t)
  const env = { HOST: '0.0.0.0', PARLEY_SIMULATOR: 'true', OPENAI_API_KEY: 'sk-x' }
  const server = await place.start({ env })
  await server.program.line(
    /^The built-in simulator answers every job, because the setting simulator is true\.$/m,
  )
  await server.program.logged(/"level":40,.*the simulator answers every job/)
  await gauge(server.url.replace('0.0.0.0', '127.0.0.1'), 'parley_waiters', 0)
  await server.stop()
  const { code, stdout } = await place.parley(['check'], { env })
  assert.equal(code, 0, stdout)
  assert.match(
    stdout,
    /^note +models: the built-in simulator answers every job.*\n +To do: .*PARLEY_SIMULATOR/m,
  )
})

test('check warns of the simulator of a first run', { timeout }, async (t) => {
  const place = await installation(t)
  const { code, stdout } = await place.parley(['check', '--json'])
  assert.equal(code, 0)
  const findings = JSON.parse(stdout) as { about: string; warns: boolean; fix: string | null }[]
  const models = findings.find(({ about }) => about === 'models')
  assert.equal(models?.warns, true)
  assert.match(models?.fix ?? '', /OPENAI_API_KEY/)
})

test('a variable that is almost one of Parley stops every start, and commands on the database', {
  timeout,
}, async (t) => {
  const place = await installation(t)
  for (const command of [['serve'], ['keys', 'list']]) {
    const { code, stderr } = await place.parley(command, { env: { PARLEY_CONFG: '/etc/parley.json' } })
    assert.equal(code, 1)
    assert.match(stderr, /PARLEY_CONFG: unknown environment variable; did you mean PARLEY_CONFIG\?/)
  }
})
