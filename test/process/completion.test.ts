/** Tests `parley completion`: what the scripts offer in the shells that are installed on this machine. */
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import test, { after } from 'node:test'
import { promisify } from 'node:util'
import { reported } from './mistakes.ts'
import { installation } from './server-process.ts'

const run = promisify(execFile)
const SHELLS = ['bash', 'zsh', 'fish']
const without = (shell: string) =>
  spawnSync(shell, ['-c', 'true']).status === 0 ? false : `there is no ${shell} here`

const place = await installation({ after })
const { folder: cwd } = place
const scripts = await Promise.all(SHELLS.map((shell) => place.output(['completion', shell])))

async function scriptFile(shell: string): Promise<string> {
  const file = join(cwd, shell)
  await writeFile(file, scripts[SHELLS.indexOf(shell)] ?? '')
  return file
}

const OFFERED = `
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_parley
printf '%s\\n' "\${COMPREPLY[@]}"`

test('bash completes commands, options, values and files', { skip: without('bash') }, async () => {
  const file = await scriptFile('bash')
  await writeFile(join(cwd, 'jobs of today.jsonl'), '')
  const offered = async (...words: string[]) => {
    const { stdout } = await run('bash', ['-c', OFFERED, 'bash', file, 'parley', ...words], { cwd })
    return stdout.trimEnd().split('\n')
  }
  const commands = await offered('')
  for (const command of ['send', 'job', 'batch', 'serve', 'check', 'keys', 'listen', 'completion']) {
    assert.ok(commands.includes(command), command)
  }
  const expected: readonly (readonly [words: readonly string[], offered: readonly string[]])[] = [
    [['se'], ['send', 'serve']],
    [['keys', 'cr'], ['create']],
    [['keys', 'create', '--t'], ['--tier']],
    [
      ['keys', 'create', '--tier', 'user_'],
      ['user_free', 'user_go', 'user_pro', 'user_max'],
    ],
    // The value of an option is not a command, even if a command has the same name.
    [['keys', 'create', '--account', 'list', '--e'], ['--expires']],
    [['accounts', 'tier', 'acme', 'user_m'], ['user_max']],
    [['accounts', 'tier', 'user_m'], ['']],
    [
      ['batch', '--format', ''],
      ['parley', 'openai'],
    ],
    [['batch', 'jobs'], ['jobs of today.jsonl']],
    [['batch', '--skip-invalid', 'jobs'], ['jobs of today.jsonl']],
    [['send', '--schema', 'jobs'], ['jobs of today.jsonl']],
    [['send', '--model', ''], ['']],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish'],
    ],
  ]
  for (const [words, offers] of expected) assert.deepEqual(await offered(...words), offers, words.join(' '))
})

for (const shell of SHELLS) {
  test(`${shell} takes its script`, { skip: without(shell) }, async () => {
    await run(shell, ['-n', await scriptFile(shell)])
  })
}

test('each script contains every command and option', () => {
  for (const [index, text] of scripts.entries()) {
    for (const word of ['batch', 'completion', 'skip-invalid', 'rotate', 'fail-first', 'user_max']) {
      assert.ok(text.includes(word), `${SHELLS[index]} lacks ${word}`)
    }
  }
})

test('another shell is rejected with the names of those there are', async () => {
  reported(await place.parley(['completion', 'tcsh']), /bash, zsh, fish/)
})
