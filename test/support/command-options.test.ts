import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import test from 'node:test'
import { fileURLToPath } from 'node:url'
import { helpOf } from './command-options.ts'

test('the help has a line for each option, with its default', () => {
  const options = {
    seeds: { type: 'string', default: '1000', help: 'The number of seeds.' },
    list: { type: 'boolean', default: false, help: 'Prints and runs nothing.' },
  } as const
  assert.equal(
    helpOf('Runs seeds.', options),
    'Runs seeds.\n\n  --seeds <value>  The number of seeds. Default: 1000.\n  --list           Prints and runs nothing.\n',
  )
})

for (const command of ['mutants/main.ts', 'simulation/main.ts', 'simulation/mutate.ts']) {
  test(`${command} prints its options with --help, and names an unknown one`, () => {
    const run = (option: string) =>
      spawnSync(process.execPath, [fileURLToPath(new URL(`../${command}`, import.meta.url)), option], {
        encoding: 'utf8',
      })
    const help = run('--help')
    assert.deepEqual([help.status, help.stderr], [0, ''])
    assert.match(help.stdout, /^.+\n\n( {2}--\w.+\n)+$/)
    const wrong = run('--nothing')
    assert.equal(wrong.status, 1)
    assert.match(wrong.stderr, /^Unknown option '--nothing'.*\n$/)
  })
}
