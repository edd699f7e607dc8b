/** Formats locations and values for error messages. The texts are always short, whatever a caller or a model has sent. */
import { TYPE_NAMES, typeBit } from './answer-schema.ts'

type Path = readonly (string | number)[]

const IDENTIFIER = /^[A-Za-z_$][\w$-]{0,79}$/

export function truncate(text: string): string {
  return text.length <= 80 ? text : `${text.slice(0, 79)}…`
}

/** Formats a location in a schema, such as `schema.properties.age.minimum`. */
export function schemaPath(path: Path): string {
  return path.reduce<string>((text, key) => {
    return typeof key === 'string' && IDENTIFIER.test(key) ? `${text}.${key}` : text + bracketed(key)
  }, 'schema')
}

/** Formats a location in an answer, such as `items[2].age`. The whole answer is `(answer)`. */
export function answerPath(path: Path): string {
  const text = path.reduce<string>((text, key) => {
    if (typeof key === 'number' || !IDENTIFIER.test(key)) return (text || '(answer)') + bracketed(key)
    return text === '' ? key : `${text}.${key}`
  }, '')
  if (text === '') return '(answer)'
  return text.length <= 400 ? text : `${text.slice(0, 200)}…${text.slice(-200)}`
}

function bracketed(key: string | number): string {
  return `[${typeof key === 'number' ? key : JSON.stringify(truncate(key))}]`
}

/** @param types the accepted types, as bits of `typeBit` */
export function typeRule(types: number): string {
  if (types === 0) return 'is not allowed: the schema is false'
  const names = TYPE_NAMES.filter((name) => (types & typeBit(name)) !== 0)
  return `must be ${names.map(withArticle).join(' or ')}`
}

function withArticle(name: string): string {
  if (name === 'null') return name
  return `${/^[aio]/.test(name) ? 'an' : 'a'} ${name}`
}

export function pluralize(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

const MAX_LISTED = 10

export function listValues(values: readonly unknown[]): string {
  const texts = values.slice(0, MAX_LISTED).map(valueText)
  const more = values.length - texts.length
  return `${texts.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

function valueText(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(truncate(value))
  if (Array.isArray(value)) return 'the array of the schema'
  return typeof value === 'object' && value !== null ? 'the object of the schema' : String(value)
}
