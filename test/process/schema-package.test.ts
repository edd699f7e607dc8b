/**
 * Tests the package `parley-json-schema` as users get it: packed, installed in an empty folder, and used as its README shows.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { pack, succeed } from './packages.ts'
import { CLONE, installation } from './server-process.ts'

const TSC = [process.execPath, join(CLONE, 'node_modules/typescript/bin/tsc')]
const CHECKED = ['--noEmit', '--strict', '--skipLibCheck', 'false', '--module', 'nodenext', '--types', 'node']
const TYPES_OF_NODE = ['--typeRoots', join(CLONE, 'node_modules/@types')]

test('the packed schema checker holds JavaScript and types, and its README runs', async (t) => {
  const place = await installation(t)
  const project = join(place.folder, 'project')
  await mkdir(project)
  await succeed(place, ['npm', 'run', '-s', 'build', '--workspace', 'json-schema'], { cwd: CLONE })
  const { file, paths } = await pack(place, ['./json-schema/dist'], CLONE)
  const others = paths.filter((path) => !/^([a-z-]+\/)?[a-z-]+(\.d\.ts|\.js)$/.test(path))
  assert.deepEqual(others.toSorted(), ['LICENSE', 'README.md', 'package.json'])

  await writeFile(join(project, 'package.json'), '{ "private": true, "type": "module" }')
  const offline = ['--offline', '--cache', join(place.folder, 'empty-cache')]
  await succeed(place, ['npm', 'install', ...offline, file], { cwd: project })
  const readme = readFileSync(join(CLONE, 'json-schema/README.md'), 'utf8')
  const [, example = ''] = /```ts\n(.*?)```/s.exec(readme) ?? []
  assert.match(example, /readSchema/)
  await writeFile(join(project, 'example.ts'), example)
  await succeed(place, [process.execPath, 'example.ts'], { cwd: project })
  await succeed(place, [...TSC, ...CHECKED, ...TYPES_OF_NODE, 'example.ts'], { cwd: project })
})
