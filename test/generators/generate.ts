/**
 * Generates clients from an OpenAPI document as users do: with openapi-typescript, whose types openapi-fetch uses, and with
 * @hey-api/openapi-ts. Clients and scenarios share a folder that TypeScript can check and Node can run.
 */
import { cpSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createClient } from '@hey-api/openapi-ts'
import openapiTypescript, { astToString } from 'openapi-typescript'

const SCENARIOS = fileURLToPath(new URL('scenarios', import.meta.url))

export interface Output {
  readonly files: number
  readonly lines: number
  readonly bytes: number
}

/** The folder must be empty. It gets the scenarios and what they import. */
export function prepareFolder(folder: string): void {
  cpSync(SCENARIOS, folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  const fetchPackage = createRequire(import.meta.url).resolve('openapi-fetch/package.json')
  symlinkSync(dirname(dirname(fetchPackage)), join(folder, 'node_modules'), 'junction')
}

export async function generateTypes(folder: string, name: string, document: string): Promise<Output> {
  const text = astToString(await openapiTypescript(document))
  writeFileSync(join(folder, `${name}.types.ts`), text)
  return { files: 1, lines: linesOf(text), bytes: text.length }
}

export async function generateClient(folder: string, name: string, document: string): Promise<Output> {
  const path = join(folder, name)
  await createClient({
    input: JSON.parse(document),
    output: { path, module: { extension: '.ts' } },
    plugins: ['@hey-api/typescript', '@hey-api/client-fetch', '@hey-api/sdk'],
    logs: { level: 'silent', file: false },
  })
  const files = readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  )
  const texts = files.map((file) => readFileSync(join(path, file), 'utf8'))
  const sum = (numbers: number[]) => numbers.reduce((a, b) => a + b, 0)
  return {
    files: files.length,
    lines: sum(texts.map(linesOf)),
    bytes: sum(texts.map((text) => text.length)),
  }
}

const linesOf = (text: string) => text.split('\n').length - 1
