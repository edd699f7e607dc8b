/** Reads the version of the program from its package.json. */
import { readFileSync } from 'node:fs'

export const VERSION: string = (
  JSON.parse(readFileSync(new URL(import.meta.resolve('#package.json')), 'utf8')) as { version: string }
).version
