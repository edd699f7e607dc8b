/** Loads configurations from files in a folder that is removed after the tests of a file. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { ConfigurationError } from '../../src/config/file.ts'
import { loadConfiguration } from '../../src/config/load.ts'
import type { Environment } from '../../src/config/settings.ts'

export function configFiles() {
  const folder = mkdtempSync(join(tmpdir(), 'parley-config-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  let files = 0
  /** The content is a text, or a value to write as JSON. Returns the file's path. */
  const fileOf = (content: unknown): string => {
    const path = join(folder, `${files++}.json`)
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
    return path
  }
  const load = (content: unknown, env: Environment = {}) => loadConfiguration(env, fileOf(content))
  const problemsOf = (content: unknown, env: Environment = {}): readonly string[] => {
    try {
      load(content, env)
    } catch (error) {
      assert.ok(error instanceof ConfigurationError, String(error))
      return error.message.replace(/ \(\S+:\d+\)$/gm, '').split('\n')
    }
    return []
  }
  /** The configuration must have exactly these problems, in any order. */
  const assertProblems = (content: unknown, env: Environment, ...says: readonly RegExp[]): void => {
    const problems = problemsOf(content, env)
    assert.equal(problems.length, says.length, problems.join('\n'))
    for (const pattern of says) {
      const isFound = problems.some((problem) => pattern.test(problem))
      assert.ok(isFound, `${pattern} is none of:\n${problems.join('\n')}`)
    }
  }
  return { folder, fileOf, load, problemsOf, assertProblems }
}
