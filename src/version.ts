/** This program's version, as its package says. */
import { readFileSync } from 'node:fs'

export const VERSION: string = (
  JSON.parse(readFileSync(new URL(import.meta.resolve('#package.json')), 'utf8')) as { version: string }
).version
