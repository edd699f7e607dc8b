/** Checks that the documents show every command, and that every link to a file or a heading has a target. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import test from 'node:test'
import type { Command } from 'commander'
import { declareCommands } from '../../src/cli/program.ts'
import { CLONE } from '../process/server-process.ts'

const FOLDERS = ['.', 'client', 'clients/python', 'docs', 'examples', 'json-schema']

function documents(folder: string): readonly string[] {
  return readdirSync(join(CLONE, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    const isDeep = folder !== '.' && entry.name !== 'node_modules'
    if (entry.isDirectory()) return isDeep ? documents(path) : []
    return entry.name.endsWith('.md') ? [path] : []
  })
}

const withoutCode = (text: string) => text.replaceAll(/^```.*?^```$/gms, '')

/** GitHub adds a number to the anchor of a repeated heading. */
function anchorsOf(path: string): ReadonlySet<string> {
  const seen = new Map<string, number>()
  const headings = withoutCode(readFileSync(path, 'utf8')).matchAll(/^##* (.*)$/gm)
  return new Set(
    [...headings].map(([, heading = '']) => {
      const anchor = heading
        .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_\s-]/gu, '')
        .replaceAll(' ', '-')
      const count = seen.get(anchor) ?? 0
      seen.set(anchor, count + 1)
      return count === 0 ? anchor : `${anchor}-${count}`
    }),
  )
}

test('every link in a document has a target', () => {
  const paths = FOLDERS.flatMap(documents)
  assert.ok(paths.length > 30)
  const broken = paths.flatMap((path) => {
    const links = withoutCode(readFileSync(join(CLONE, path), 'utf8')).matchAll(/\]\(([^)\s]+)\)/g)
    return [...links].flatMap(([, link = '']) => {
      if (/^(https?|mailto):/.test(link)) return []
      const [file = '', anchor] = link.split('#')
      const target = file === '' ? join(CLONE, path) : join(CLONE, dirname(path), file)
      const isThere =
        existsSync(target) && (!anchor || (statSync(target).isFile() && anchorsOf(target).has(anchor)))
      return isThere ? [] : [`${relative('.', path)}: ${link}`]
    })
  })
  assert.deepEqual(broken, [])
})

test('a document shows each command', () => {
  const named = (command: Command, path: string): readonly string[] =>
    command.commands.length === 0
      ? [path]
      : command.commands.flatMap((one) => named(one, `${path} ${one.name()}`.trim()))
  const commands = named(
    declareCommands(() => {}),
    '',
  )
  const text = documents('docs')
    .map((path) => readFileSync(join(CLONE, path), 'utf8'))
    .join('\n')
  const missing = commands.filter((name) => !text.includes(`\`${name}`) && !text.includes(`parley ${name}`))
  assert.deepEqual(missing, [], 'describe them in docs/command-line.md')
})
