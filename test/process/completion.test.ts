/** Tests `parley completion`: what the scripts offer in the shells that are installed on this machine. */
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { MAIN } from './server-process.ts'

const run = promisify(execFile)
const has = (shell: string) => spawnSync(shell, ['-c', 'true']).status === 0
const without = (shell: string) => (has(shell) ? false : `there is no ${shell} here`)

async function script(shell: string): Promise<string> {
  return (await run(process.execPath, [MAIN, 'completion', shell])).stdout
}

async function folder(t: TestContext): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'parley-completion-'))
  t.after(() => rm(made, { recursive: true }))
  return made
}

/** Prints what bash offers for the last word of a line. */
const OFFERED = `
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_parley
printf '%s\\n' "\${COMPREPLY[@]}"`

test('bash completes commands, options, values and files', { skip: without('bash') }, async (t) => {
  const cwd = await folder(t)
  const file = join(cwd, 'script')
  await writeFile(file, await script('bash'))
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

for (const shell of ['bash', 'zsh', 'fish']) {
  test(`${shell} takes its script`, { skip: without(shell) }, async (t) => {
    const file = join(await folder(t), 'script')
    await writeFile(file, await script(shell))
    await run(shell, ['-n', file])
  })
}

test('each script contains every command and option', async () => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    const text = await script(shell)
    for (const word of ['batch', 'completion', 'skip-invalid', 'rotate', 'fail-first', 'user_max']) {
      assert.ok(text.includes(word), `${shell} lacks ${word}`)
    }
  }
})

test('another shell is rejected with the names of those there are', async () => {
  await assert.rejects(run(process.execPath, [MAIN, 'completion', 'tcsh']), /bash, zsh, fish/)
})
