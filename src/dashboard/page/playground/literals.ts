/** Formats JSON values as literals of programming languages. */

export interface Dialect {
  readonly name: (name: string) => string
  readonly word: (value: boolean | null) => string
}

export const TYPESCRIPT: Dialect = {
  name: (name) => (/^[A-Za-z_$][\w$]*$/.test(name) && name !== '__proto__' ? name : JSON.stringify(name)),
  word: String,
}

/** Python's string literals support all escapes of JSON. */
export const PYTHON: Dialect = {
  name: (name) => JSON.stringify(name),
  word: (value) => (value === null ? 'None' : value ? 'True' : 'False'),
}

const SHORT = 70

export function literal(value: unknown, dialect: Dialect, indent = ''): string {
  if (typeof value === 'boolean' || value === null) return dialect.word(value)
  if (typeof value !== 'object' || value === undefined) return JSON.stringify(value)
  const inner = `${indent}  `
  const [open, parts, close] = Array.isArray(value)
    ? (['[', value.map((one) => literal(one, dialect, inner)), ']'] as const)
    : ([
        '{',
        Object.entries(value).map(([name, one]) => `${dialect.name(name)}: ${literal(one, dialect, inner)}`),
        '}',
      ] as const)
  const line = `${open}${open === '{' ? ' ' : ''}${parts.join(', ')}${open === '{' ? ' ' : ''}${close}`
  if (parts.length === 0) return open + close
  if (line.length + indent.length <= SHORT && !line.includes('\n')) return line
  return `${open}\n${parts.map((part) => `${inner}${part},\n`).join('')}${indent}${close}`
}
